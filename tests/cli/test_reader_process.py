"""``nbstream learn`` reads in a process of its own: what ends one of the two ends both, and no lesson is half."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.cli import message_files, reader_process
from nbstream.cli.exit_codes import EX_INTERRUPTED, EX_SOFTWARE
from nbstream.errors import InputError
from nbstream.filter.lesson_groups import GROUP_SIZE
from nbstream.mail.message import Message
from nbstream.policy.header import MessageReader
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.ledger import unpack_tokens
from nbstream.store.model.model import Model
from nbstream.tokens.tokenizer import Tokenizer
from tests.harness.algebra import live_entries, stored, summed
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples
from tests.harness.waiting import DEADLINE_SECONDS, until

RAWS = [raw for label, raw in samples(6 * GROUP_SIZE) if label == "spam"]


def mbox(raws: list[bytes]) -> bytes:
    return b"".join(b"From ann Sat Nov 21 10:00:00 2026\n" + raw + b"\n" for raw in raws)


@dataclass
class Learning:
    """A command that has learned a part of what it is given, and waits for more."""

    process: asyncio.subprocess.Process
    model: Model

    @property
    def child(self) -> int:
        return int(Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[0])

    async def ended(self) -> tuple[int, str]:
        assert self.process.stderr
        async with asyncio.timeout(DEADLINE_SECONDS):
            said = await self.process.stderr.read()
            return await self.process.wait(), said.decode()


@pytest.fixture
async def client(own_redis: RedisServer) -> AsyncIterator[Redis]:
    client = open_client(ConnectionOptions(own_redis.url))
    yield client
    await client.aclose()


@asynccontextmanager
async def learning(own_redis: RedisServer, client: Redis, folder: Path) -> AsyncIterator[Learning]:
    config, model = folder / "nb.yaml", Model(client, "test", 3600)
    config.write_text(f"redis: {{url: '{own_redis.url}'}}\nmodel: {{name: test}}\nstate_dir: {folder / 'state'}\n")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "nbstream.cli", "learn", "-c", str(config), "spam", "-"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdin
    process.stdin.write(mbox(RAWS))

    async def begun() -> bool:
        return sum((await model.totals()).messages) >= GROUP_SIZE

    try:
        await until(begun)
        yield Learning(process, model)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await process.wait()


async def whole(result: Learning, client: Redis) -> bool:
    """Whether what was learned is what the ledger says, once nobody writes any more."""

    async def alone() -> bool:
        return len(await client.client_list()) == 1

    await until(alone)
    return len(await live_entries(result.model)) >= GROUP_SIZE and await stored(result.model) == await summed(
        result.model
    )


async def ended(process: int) -> None:
    async def is_gone() -> bool:
        return not Path(f"/proc/{process}").exists()

    await until(is_gone)


def source(*paths: Path) -> reader_process.MessageSource:
    return lambda errors: (
        (message, "spam") for message in message_files.read_messages(list(map(str, paths)), errors)
    )


async def test_what_comes_by_the_way_is_what_is_read_here_in_order(tmp_path: Path) -> None:
    box, missing, binary = tmp_path / "box", tmp_path / "missing", tmp_path / "binary"
    box.write_bytes(mbox(RAWS))
    binary.write_bytes(b"\0\1")
    tokenizer, reader = Tokenizer(), MessageReader()

    with reader_process.in_own_process(
        reader_process.read_chunks(source(missing, box, binary), tokenizer, reader)
    ) as chunks:
        result = [chunk async for chunk in chunks]

    messages_read = [message.tokenized for chunk in result for message in chunk.messages]
    assert {message.label for chunk in result for message in chunk.messages} == {"spam"}
    messages = [Message.parse(raw.removesuffix(b"\n") + b"\n", reader.limits) for raw in RAWS]
    assert [message.key for message in messages_read] == [message.key for message in messages]
    assert [message.tokens for message in messages_read] == [
        tokenizer.tokenize(message).tokens for message in messages
    ]
    assert [unpack_tokens(message.packed_tokens) for message in messages_read] == [
        message.tokens.all.names for message in messages_read
    ]
    errors = [str(error) for chunk in result for error in chunk.errors]
    assert errors == [f"{missing}: No such file or directory", f"{binary}: a binary file, that is no message"]
    assert all(isinstance(error, InputError) for chunk in result for error in chunk.errors)
    assert [chunk.last for chunk in result] == [False] * (len(result) - 1) + [True]


FAILING = """
import sys
from nbstream.cli import main, reader_process

def fail(raw):
    raise ZeroDivisionError("so it is")

reader_process.original_of = fail
sys.exit(main.main(sys.argv[1:]))
"""


async def test_a_fault_of_the_reader_ends_the_command_as_any_other_fault(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    config, box = tmp_path / "nb.yaml", tmp_path / "box"
    config.write_text(f"redis: {{url: '{own_redis.url}'}}\nstate_dir: {tmp_path / 'state'}\n")
    box.write_bytes(mbox(RAWS[:1]))
    words = [sys.executable, "-c", FAILING, "learn", "-c", str(config), "spam", str(box)]

    result = await asyncio.to_thread(subprocess.run, words, capture_output=True, text=True, check=False)

    assert result.returncode == EX_SOFTWARE
    assert "ZeroDivisionError: so it is\n" in result.stderr


async def test_a_reader_that_is_killed_ends_the_command_and_leaves_whole_lessons(
    own_redis: RedisServer, client: Redis, tmp_path: Path
) -> None:
    async with learning(own_redis, client, tmp_path) as result:
        os.kill(result.child, signal.SIGKILL)

        code, said = await result.ended()

        assert code == 75
        assert "has ended before the last of them" in said
        assert result.process.stdout
        output = (await result.process.stdout.read()).decode()
        assert "learned as spam; " in output
        assert output.endswith("; a few more may be, the same command goes on\n")
        assert await whole(result, client)


async def test_ctrl_c_ends_both_at_once_and_leaves_whole_lessons(
    own_redis: RedisServer, client: Redis, tmp_path: Path
) -> None:
    async with learning(own_redis, client, tmp_path) as result:
        child = result.child
        os.killpg(result.process.pid, signal.SIGINT)

        code, said = await result.ended()

        assert (code, said) == (EX_INTERRUPTED, "")
        await ended(child)
        assert await whole(result, client)


async def test_a_reader_does_not_outlive_what_it_reads_for(
    own_redis: RedisServer, client: Redis, tmp_path: Path
) -> None:
    async with learning(own_redis, client, tmp_path) as result:
        child = result.child
        result.process.kill()  # while the reader waits for more to come

        await ended(child)
        assert await whole(result, client)
