"""Checked messages come back exactly, within the limits, and no check waits for their storage."""

from __future__ import annotations

import asyncio
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.policy.check import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store import compression
from nbstream.store.compression import MAX_UNPACKED_BYTES, compress
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.checked_messages import (
    MAX_QUEUED,
    CheckedMessage,
    RecentMessages,
)
from nbstream.store.settings import MemorySettings
from nbstream.tokens.tokens import Tokens
from tests.harness.counted_clues import counted_clues
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import DEADLINE_SECONDS
from tests.store.bombs import MANY_BYTES, MANY_TOKENS, little_memory

KEYS = ModelKeys("test")
DICTIONARY = zstandard.ZstdCompressionDict(
    (Path(compression.__file__).parent / compression.DICTIONARY_FILE).read_bytes()
)


def checked_message(number: int) -> CheckedMessage:
    return CheckedMessage(f"m{number}", Tokens((b"subject:x",), (b"body:%d" % number,)), number / 1000, "unsure")


class DroppedMessages:
    """Counts the messages that were not written."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, count: int) -> None:
        self.count += count


@asynccontextmanager
async def running(recent: RecentMessages) -> AsyncIterator[None]:
    task = asyncio.create_task(recent.run())
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.1)


async def write_messages(client: Redis, numbers: range, options: MemorySettings) -> RecentMessages:
    """Recent messages with these numbers, queued no faster than they are written."""
    recent = RecentMessages(client, KEYS, options, DroppedMessages())
    async with running(recent):
        for number in numbers:
            recent.remember(checked_message(number))
            if number % 10 == 9:
                await recent.wait_until_written()
        await recent.wait_until_written()
    return recent


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1)
TOKENS = st.lists(TEXT.map(str.encode)).map(tuple)


@given(
    st.builds(
        Tokens,
        TOKENS.map(lambda tokens: tuple(b"subject:" + token for token in tokens)),
        TOKENS.map(lambda tokens: tuple(b"body:" + token for token in tokens)),
        TOKENS.map(lambda tokens: tuple(b"raw:" + token for token in tokens)),
    ),
    st.floats(0, 1),
    st.booleans(),
    st.booleans(),
)
def test_what_is_unpacked_is_what_was_packed(
    tokens: Tokens, probability: float, is_listed: bool, is_discounted: bool
) -> None:
    message = CheckedMessage("key", tokens, probability, "spam", is_listed=is_listed, is_discounted=is_discounted)

    assert CheckedMessage.unpack("key", message.pack()) == message
    assert CheckedMessage.unpack_first("key", message.pack() + b"more") == (message, b"more")


async def test_a_message_is_recalled_as_it_was_until_it_expires(client: Redis) -> None:
    recent = await write_messages(client, range(3), MemorySettings(hours=1))

    assert await recent.recall("m1") == checked_message(1)
    assert await recent.recall("m9") is None
    assert 3500 < await client.ttl(KEYS.checked("m1")) <= 3600
    assert 3500 < await client.ttl(KEYS.recent) <= 3600

    await client.pexpire(KEYS.checked("m1"), 0)
    assert await recent.recall("m1") is None
    assert [message.key async for message in recent.newest(10)] == ["m2", "m0"]


def build_explanation(at: float) -> Explanation:
    return Explanation(
        at=at,
        verdict="unsure",
        reason="learning 0/2",
        probability=0.001,
        score=0.75,
        prior=0.5,
        thresholds=Thresholds(),
        state=ModelState({"ham": 0, "spam": 0}, {"ham": 1, "spam": 1}),
        clues=counted_clues(checked_message(1).tokens, [CountedClue(b"body:1", 0.25, 0, 1000)]),
    )


async def test_the_explanation_is_recalled_with_its_message_and_the_time_of_the_check(client: Redis) -> None:
    recent = RecentMessages(client, KEYS, MemorySettings(), DroppedMessages())
    before = time.time()
    async with running(recent):
        recent.remember(checked_message(1), build_explanation)
        recent.remember(checked_message(2))
        await recent.wait_until_written()

    recalled = await recent.recall_with_explanation("m1")

    assert recalled is not None
    assert recalled[0] == checked_message(1) == await recent.recall("m1")
    assert recalled[1] is not None
    assert before <= recalled[1].at <= time.time()
    assert recalled[1] == build_explanation(recalled[1].at)
    assert await recent.recall_with_explanation("m2") == (checked_message(2), None)
    assert await recent.recall_with_explanation("m3") is None
    assert [message.key async for message in recent.newest(9)] == ["m2", "m1"]


async def test_a_message_that_is_not_written_yet_can_be_recalled_by_this_process(client: Redis) -> None:
    recent = RecentMessages(client, KEYS, MemorySettings(), DroppedMessages())
    recent.remember(checked_message(1), build_explanation)
    recent.remember(checked_message(2))

    assert await recent.recall("m1") == checked_message(1)
    assert await recent.recall_with_explanation("m2") == (checked_message(2), None)
    recalled = await recent.recall_with_explanation("m1")
    assert await client.keys("*") == []

    async with running(recent):
        await recent.wait_until_written()
    assert not recent._unwritten
    assert await recent.recall_with_explanation("m1") == recalled


async def test_the_later_of_two_checks_of_a_message_is_recalled(client: Redis) -> None:
    recent = RecentMessages(client, KEYS, MemorySettings(), DroppedMessages())
    recent.remember(checked_message(1))
    later = checked_message(1)._replace(verdict="spam")
    recent.remember(later)

    assert await recent.recall("m1") == later
    async with running(recent):
        await recent.wait_until_written()
    assert await recent.recall("m1") == later
    assert await client.zcard(KEYS.recent) == 1


async def test_above_the_limit_the_oldest_messages_are_removed_completely(client: Redis) -> None:
    recent = await write_messages(client, range(100), MemorySettings(messages=30))

    assert [message.key async for message in recent.newest(100)] == [f"m{number}" for number in range(99, 69, -1)]
    assert len(await client.keys("*")) == 61  # with their rows


async def test_a_lowered_limit_is_reached_in_small_steps(client: Redis) -> None:
    await write_messages(client, range(100), MemorySettings())
    recent = await write_messages(client, range(100, 110), MemorySettings(messages=20))
    assert 20 < await client.zcard(KEYS.recent) <= 100

    recent = await write_messages(client, range(110, 200), MemorySettings(messages=20))
    assert [message.key async for message in recent.newest(100)] == [
        f"m{number}" for number in range(199, 179, -1)
    ]
    assert len(await client.keys("*")) == 41


async def test_messages_are_dropped_and_counted_when_the_queue_is_full(client: Redis) -> None:
    dropped = DroppedMessages()
    recent = RecentMessages(client, KEYS, MemorySettings(), dropped)

    for number in range(MAX_QUEUED + 7):
        recent.remember(checked_message(number))
    assert dropped.count == 7

    async with running(recent):
        await recent.wait_until_written()
    assert await client.zcard(KEYS.recent) == MAX_QUEUED
    assert await recent.recall(f"m{MAX_QUEUED}") is None


def large_message(number: int) -> CheckedMessage:
    """A message of some thousand bytes; thirty of them are compressed in a thread."""
    return checked_message(number)._replace(tokens=Tokens((), [b"body:%d-%d" % (number, i) for i in range(300)]))


needs_one_call = pytest.mark.skipif(
    not compression.COMPRESSES_AT_ONCE, reason="this zstandard was built with a library of the system"
)


@needs_one_call
async def test_messages_that_are_being_compressed_are_recalled_and_counted_where_the_task_ends(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    compress_at_once, loop = compression.compress_at_once, asyncio.get_running_loop()
    begun, may_end = asyncio.Event(), threading.Event()

    def compress_later(contents: Sequence[bytes]) -> list[bytes]:
        loop.call_soon_threadsafe(begun.set)
        may_end.wait(DEADLINE_SECONDS)
        return compress_at_once(contents)

    monkeypatch.setattr(compression, "compress_at_once", compress_later)
    dropped = DroppedMessages()
    recent = RecentMessages(client, KEYS, MemorySettings(), dropped)
    try:
        async with running(recent):
            for number in range(30):
                recent.remember(large_message(number))
            async with asyncio.timeout(DEADLINE_SECONDS):
                await begun.wait()
            assert await client.keys("*") == []
            assert await recent.recall("m7") == large_message(7)
    finally:
        may_end.set()
    assert dropped.count == 30
    assert await recent.recall("m7") is None


async def test_while_redis_is_away_messages_are_dropped_and_counted_and_later_ones_written(
    own_redis: RedisServer,
) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    dropped, written = DroppedMessages(), list[bool]()
    recent = RecentMessages(client, KEYS, MemorySettings(), dropped, lambda: written.append(True))
    own_redis.stop()
    async with running(recent):
        for number in range(40):
            recent.remember(checked_message(number))
        await recent.wait_until_written()
        assert (dropped.count, written) == (40, [])
        with pytest.raises(StoreUnavailable):
            await recent.recall("m1")

        own_redis.start()
        recent.remember(checked_message(41))
        await recent.wait_until_written()
    assert await recent.recall("m41") == checked_message(41)
    assert (dropped.count, written) == (40, [True])
    await client.aclose()


@pytest.mark.parametrize(("moment", "count"), [("gathering", 3), ("writing", 40)])
async def test_messages_that_are_not_written_at_the_end_are_counted(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, moment: str, count: int
) -> None:
    script_called = asyncio.Event()

    async def keep_script_reply(request: bytes) -> Fate:
        if b"EVALSHA" in request:
            script_called.set()
            return Fate.KEEP_REPLY
        return Fate.PASS

    dropped = DroppedMessages()
    async with Proxy(shared_redis.socket, tmp_path / "s", keep_script_reply) as proxy:
        stalled = open_client(ConnectionOptions(proxy.url))
        recent = RecentMessages(stalled, KEYS, MemorySettings(), dropped)
        async with running(recent):
            for number in range(count):
                recent.remember(checked_message(number))
            await (asyncio.sleep(0) if moment == "gathering" else script_called.wait())
        await stalled.aclose()

    assert dropped.count == count


@pytest.mark.parametrize(
    "stored",
    [
        b"something else",
        checked_message(1).pack()[:-1],
        checked_message(1).pack()[:7],
        zstandard.ZstdCompressor().compress(checked_message(1).content()),
        zstandard.ZstdCompressor(dict_data=DICTIONARY, write_content_size=False).compress(b"0.5 ham\0\0\0"),
        zstandard.ZstdCompressor(dict_data=DICTIONARY).compress(bytes(MAX_UNPACKED_BYTES + 1)),
        zlib.compress(b"0.5 ham\0\0\0"),
        compress(b"0.5 ham\0\0\xff\0"),
        compress(b"0.5 ham\0\0*@x\0list\0more"),
    ],
)
async def test_a_value_of_another_program_is_refused(client: Redis, stored: bytes) -> None:
    await client.set(KEYS.checked("m1"), stored)

    with pytest.raises(StoreIncompatible):
        await RecentMessages(client, KEYS, MemorySettings(), DroppedMessages()).recall("m1")


@pytest.mark.parametrize(
    "make",
    [
        lambda: zstandard.ZstdCompressor(dict_data=DICTIONARY).compress(bytes(MANY_BYTES)),
        lambda: compress(b"0.5 ham\0%s\0\0" % MANY_TOKENS),
    ],
    ids=["many bytes", "many tokens"],
)
async def test_a_bomb_is_refused_before_it_takes_memory(client: Redis, make: Callable[[], bytes]) -> None:
    await client.set(KEYS.checked("m1"), make())

    with little_memory(), pytest.raises(StoreIncompatible):
        await RecentMessages(client, KEYS, MemorySettings(), DroppedMessages()).recall("m1")
