"""``nbstream learn`` of a whole mailbox: killed in the middle, run again, taken back."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from nbstream.filter.bulk import BATCH_SIZE
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.conftest import RedisServer
from tests.letters import letters
from tests.store.algebra import live_entries, stored, summed
from tests.waiting import until

COUNT = 40 * BATCH_SIZE


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
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "test", 3600)

    async def begun() -> bool:
        return sum((await model.totals()).messages) > BATCH_SIZE

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
    assert BATCH_SIZE < learned < COUNT
    assert await stored(model) == await summed(model)

    assert run(config, "learn", "spam", mbox).startswith(f"{learned + 1} already, {COUNT - learned} learned; ")
    assert (await model.totals()).messages == (0, COUNT)
    assert await stored(model) == await summed(model)

    assert run(config, "unlearn", mbox).startswith(f"1 unknown, {COUNT} unlearned; ")
    assert await stored(model) == ({"ham": {}, "spam": {}}, {})
    await client.aclose()


def test_the_bar_on_a_terminal_counts_what_is_learned_by_id_too(shared_redis: RedisServer, tmp_path: Path) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"redis: {{url: '{shared_redis.url}'}}\nmodel: {{name: bar}}\nstate_dir: {tmp_path}\n")
    for name in ("prize", "lunch"):
        (tmp_path / name).write_text(f"Subject: {name}\n\nIt is about {name}.\n")
    run(config, "learn", "spam", tmp_path / "prize")
    message_id = json.loads(run(config, "check", "--json", tmp_path / "prize"))["id"]
    own, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 80, 0, 0))

    words = command(config, "learn", "ham", tmp_path / "lunch", "--id", message_id)
    with subprocess.Popen(words, stderr=theirs, stdout=subprocess.DEVNULL) as process:
        os.close(theirs)
        shown = b""
        with suppress(OSError):  # EIO: the command has gone, and with it the terminal's other side
            while part := os.read(own, 4096):
                shown += part
        os.close(own)
        assert process.wait(60) == 0

    assert b"2/2 [" in shown


async def test_one_whose_entry_cannot_be_read_is_named_and_the_others_are_learned(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    config, mbox = tmp_path / "nb.yaml", mailbox(tmp_path / "spam.mbox")
    config.write_text(f"redis: {{url: '{own_redis.url}'}}\nmodel: {{name: test}}\nstate_dir: {tmp_path}\n")
    run(config, "learn", "spam", mbox)
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "test", 3600)
    spoilt = min(await live_entries(model))
    await client.hset(model.keys.ledger(spoilt), "weight", "much")

    learning = await asyncio.create_subprocess_exec(
        *command(config, "learn", "ham", mbox), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    out, err = await learning.communicate()

    assert learning.returncode == 78
    assert out.decode().startswith(f"1 already, {COUNT - 1} relearned; ")
    assert err.decode().splitlines() == [
        f"nbstream: {spoilt}: a ledger entry cannot be read: another program wrote it",
        "nbstream: 1 could not be read, the rest was",
    ]
    await client.aclose()


async def test_an_id_whose_entry_cannot_be_read_is_named_too(own_redis: RedisServer, tmp_path: Path) -> None:
    config, mbox = tmp_path / "nb.yaml", tmp_path / "mbox"
    config.write_text(f"redis: {{url: '{own_redis.url}'}}\nmodel: {{name: test}}\nstate_dir: {tmp_path}\n")
    mbox.write_bytes(b"".join(b"From ann Sat Nov 21 10:00:00 2026\n" + raw + b"\n" for _, raw in letters(3)))
    run(config, "learn", "spam", mbox)
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "test", 3600)
    spoilt, *others = await live_entries(model)
    await client.hset(model.keys.ledger(spoilt), "weight", "much")
    await client.aclose()

    learning = await asyncio.create_subprocess_exec(
        *command(config, "learn", "ham", "--id", spoilt, *others),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, err = await learning.communicate()

    assert learning.returncode == 78
    assert out.decode().startswith("2 relearned; ")
    assert err.decode().startswith(
        f"nbstream: {spoilt}: a ledger entry cannot be read: another program wrote it\n"
    )
