"""``nbstream learn`` of a whole mailbox: killed in the middle, run again, taken back."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from nbstream.filter.bulk import BATCH
from nbstream.store.connect import Params, open_client
from nbstream.store.model import Model
from tests.conftest import RedisServer
from tests.letters import letters
from tests.store.algebra import live_entries, stored, summed
from tests.waiting import until

COUNT = 40 * BATCH


def mailbox(path: Path) -> Path:
    """An mbox of spam, with one message twice."""
    spam = [raw for label, raw in letters(2 * COUNT + 200) if label == "spam"][:COUNT]
    path.write_bytes(b"".join(b"From ann Sat Nov 21 10:00:00 2026\n" + raw + b"\n" for raw in [*spam, spam[0]]))
    return path


def command(config: Path, *words: str | Path) -> Sequence[str]:
    return [sys.executable, "-m", "nbstream.cli", str(words[0]), "-c", str(config), *map(str, words[1:])]


def run(config: Path, *words: str | Path) -> str:
    done = subprocess.run(command(config, *words), capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


async def test_a_mailbox_whose_learning_was_killed_is_learned_once(own_redis: RedisServer, tmp_path: Path) -> None:
    config, mbox = tmp_path / "nb.yaml", mailbox(tmp_path / "spam.mbox")
    config.write_text(
        f"redis: {{url: '{own_redis.url}'}}\nmodel: {{name: test}}\nstate_dir: {tmp_path / 'state'}\n"
    )
    client = open_client(Params(own_redis.url))
    model = Model(client, "test", 3600)

    async def begun() -> bool:
        return sum((await model.totals()).messages) > BATCH

    async def alone() -> bool:
        return len(await client.client_list()) == 1

    learning = await asyncio.create_subprocess_exec(
        *command(config, "learn", "spam", mbox), stdout=subprocess.DEVNULL
    )
    try:
        await until(begun)
    finally:
        learning.kill()
        await learning.wait()
    await until(alone)  # what had reached Redis is still carried out
    learned = len(await live_entries(model))
    assert BATCH < learned < COUNT
    assert await stored(model) == await summed(model)

    assert run(config, "learn", "spam", mbox).startswith(f"{learned + 1} already, {COUNT - learned} learned; ")
    assert (await model.totals()).messages == (0, COUNT)
    assert await stored(model) == await summed(model)

    assert run(config, "unlearn", mbox).startswith(f"1 unknown, {COUNT} unlearned; ")
    assert await stored(model) == ({"ham": {}, "spam": {}}, {})
    await client.aclose()
