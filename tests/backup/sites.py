"""Sites that are backed up and restored: their configuration, state folder and Redis, and commands on them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from nbstream import config
from nbstream.assembly.filter import make_filter, open_one_shot_filter
from nbstream.assembly.store import (
    RedisClients,
    make_autolearn_model,
    make_model,
    make_own_model,
    open_running_redis,
)
from nbstream.config import Settings
from nbstream.delivery.maildir import write_drafts
from nbstream.delivery.next_hop import Envelope, SmtpPath
from nbstream.delivery.quarantine import Quarantine, QuarantineNote
from nbstream.mail.message import Message
from nbstream.own_models.index import OwnModelIndex
from nbstream.store.model.model import Model
from tests.integration.daemon import DEADLINE_SECONDS
from tests.letters import letters

ANN, BOB = "ann@example.org", "bob@example.org"
OWN_MODELS = {"models": [{"match": "*@example.org", "name": "{address}"}]}
ENVELOPE = Envelope(SmtpPath("a@a.test", ("SIZE=9", "BODY=8BITMIME")), (SmtpPath(ANN), SmtpPath(BOB)))
Files = dict[str, bytes]


class Site:
    """A site in ``folder`` whose configuration has these ``values``."""

    def __init__(self, folder: Path, **values: Any) -> None:
        folder.mkdir()
        self.config = folder / "nbstream.yaml"
        self.state = folder / "state"
        self.config.write_text(yaml.safe_dump({"state_dir": str(self.state), **values}))

    @property
    def settings(self) -> Settings:
        return config.load_settings(self.config)

    async def start(self, command: str, *arguments: str | Path) -> asyncio.subprocess.Process:
        """Start a command."""
        words = [command, "-c", str(self.config), *map(str, arguments)]
        pipes: Mapping[str, Any] = {"stdout": asyncio.subprocess.PIPE, "stderr": asyncio.subprocess.PIPE}
        return await asyncio.create_subprocess_exec(sys.executable, "-m", "nbstream.cli", *words, **pipes)

    async def __call__(self, command: str, *arguments: str | Path, code: int = 0) -> str:
        """Run a command, and return what it prints, errors included."""
        process = await self.start(command, *arguments)
        out, err = await process.communicate()
        assert process.returncode == code, err.decode()
        return out.decode() + err.decode()

    @asynccontextmanager
    async def models(self) -> AsyncIterator[dict[str, Model]]:
        """The models of the site, by their names; that of the layer is "layer", that of people "common"."""
        settings = self.settings
        async with open_running_redis(settings) as clients:
            names = await OwnModelIndex(clients.client, settings.model.name).names()
            models: dict[str, Model] = {
                "common": make_model(settings, clients.client),
                "layer": make_autolearn_model(settings, clients.client),
                **{name: make_own_model(settings, clients.client, name) for name in names},
            }
            yield {name: await model.open(sign=False) for name, model in models.items()}

    @asynccontextmanager
    async def redis(self) -> AsyncIterator[RedisClients]:
        async with open_running_redis(self.settings) as clients:
            yield clients

    async def teach(self, count: int, seed: int, user: str | None = None) -> None:
        """Teach so many letters to the common model, or to that of a user."""
        async with open_one_shot_filter(self.settings, sign=True, user=user) as (spam_filter, _):
            for label, raw in letters(count, seed):
                await spam_filter.learn(Message.parse(raw), label, "cli", user or "user root")

    async def teach_layer(self, count: int, seed: int) -> None:
        """Teach so many letters without people."""
        async with self.redis() as clients:
            layer = await make_autolearn_model(self.settings, clients.client).open()
            spam_filter = make_filter(self.settings, layer, layer)
            try:
                for label, raw in letters(count, seed):
                    await spam_filter.learn(Message.parse(raw), label, "auto", "")
            finally:
                await spam_filter.wait_for_lesson_groups(DEADLINE_SECONDS)

    async def hold_back(self, number: int) -> None:
        """Add a message to the quarantine."""
        quarantine = Quarantine(self.settings.quarantine_folder)
        note = QuarantineNote(f"{number:024}".translate(_ID_DIGITS), "spam", 0.987, "", ENVELOPE)
        content = b"Subject: %d\r\n\r\n\xff\x00 body %d\r\n" % (number, number)
        assert await write_drafts([quarantine.make_draft(note, b"X-Nbstream: spam\n", content)]) is None

    def files(self, folder: str) -> Files:
        """The content of the files of a folder of the state, by their paths in it."""
        root = self.state / folder
        return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


_ID_DIGITS = str.maketrans("0189", "abcd")
