"""Commands in the test's process on a model of their own, which several people teach."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

from nbstream.bayes.columns import CLASSES
from nbstream.cli.main import main
from nbstream.mail.message import Message
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.filters import make_filter

Result = TypeVar("Result")


class Taught:
    """A model that letters are taught to, and the commands that look at it."""

    def __init__(self, url: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capsys = capsys
        self.config = folder / "nb.yaml"
        # The name and the needs of the model that ``make_filter`` makes.
        self.config.write_text(f"redis: {{url: '{url}'}}\nmodel: {{name: test, min_learned: 1}}\n")
        self.model(lambda model: model.open())

    def model(self, use: Callable[[Model], Awaitable[Result]]) -> Result:
        """What ``use`` says of the model."""

        async def run() -> Result:
            client = open_client(ConnectionOptions(self._url))
            try:
                return await use(Model(client, "test", 3600))
            finally:
                await client.aclose()

        return asyncio.run(run())

    def teach(self, raw: bytes, label: str | None, actor: str = "ann", source: str = "smtp") -> str:
        """Learn a letter, or unlearn it (None); its id."""
        message = Message.parse(raw)

        async def run(model: Model) -> None:
            spam_filter = make_filter(model.client)
            if label:
                await spam_filter.learn(message, label, source, actor)
            else:
                await spam_filter.unlearn(message, source, actor)

        self.model(run)
        return message.key

    def teach_all(self, lessons: Sequence[tuple[bytes, str]]) -> None:
        """Learn letters in their order, each with its label."""

        async def run(model: Model) -> None:
            spam_filter = make_filter(model.client)
            for raw, label in lessons:
                await spam_filter.learn(Message.parse(raw), label, "smtp", "ann")

        self.model(run)

    def stored(self) -> list[Any]:
        """Counts by class and totals, field by field."""

        async def run(model: Model) -> list[Any]:
            keys: list[str] = [*map(model.keys.counts, CLASSES), model.keys.totals]
            assert len(keys) == len(CLASSES) + 1
            return [await model.client.hgetall(key) for key in keys]

        return self.model(run)

    def __call__(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        """Run a command; what it printed on standard output and on standard error."""
        assert main([arguments[0], "-c", str(self.config), *arguments[1:]]) == code
        printed = self._capsys.readouterr()
        return printed.out, printed.err

    def json(self, *arguments: str) -> list[dict[str, Any]]:
        out, _ = self(*arguments, "--json")
        return [json.loads(line) for line in out.splitlines()]
