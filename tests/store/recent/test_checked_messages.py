"""What is remembered of checked messages: exactly what was seen, no more than permitted, and never in the way."""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.mail.message import Message
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.checked_messages import (
    MAX_QUEUED,
    CheckedMessage,
    RecentMessages,
    RecentMessagesOptions,
)
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions, Tokens
from tests.conftest import RedisServer
from tests.letters import letters
from tests.store.proxy import Fate, Proxy
from tests.waiting import DEADLINE_SECONDS

KEYS = ModelKeys("test")


def checked(number: int) -> CheckedMessage:
    return CheckedMessage(f"m{number}", Tokens((b"subject:x",), (b"body:%d" % number,)), number / 1000, "unsure")


class Dropped:
    """What was not written."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, count: int) -> None:
        self.count += count


@asynccontextmanager
async def running(memory: RecentMessages) -> AsyncIterator[None]:
    task = asyncio.create_task(memory.run())
    try:
        yield
    finally:
        while not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=0.1)


async def written(client: Redis, numbers: range, params: RecentMessagesOptions) -> RecentMessages:
    """A memory of those messages, fed no faster than it writes."""
    memory = RecentMessages(client, KEYS, params, Dropped())
    async with running(memory):
        for number in numbers:
            memory.remember(checked(number))
            if number % 10 == 9:
                await memory.wait_until_written()
        await memory.wait_until_written()
    return memory


TEXT = st.text(st.characters(codec="utf-8", exclude_categories=("Cc", "Zs", "Zl", "Zp")), min_size=1)
TOKENS = st.lists(TEXT.map(str.encode)).map(tuple)


@given(
    st.builds(
        Tokens,
        TOKENS,
        TOKENS,
        st.lists(st.tuples(TEXT, TEXT)).map(tuple),
        st.lists(st.tuples(TEXT, st.integers())).map(tuple),
    ),
    st.floats(0, 1),
)
def test_what_is_unpacked_is_what_was_packed(tokens: Tokens, probability: float) -> None:
    message = CheckedMessage("key", tokens, probability, "spam")

    assert CheckedMessage.unpack("key", message.pack()) == message


def test_the_tokens_attributes_and_numbers_of_messages_come_back() -> None:
    tokenizer = Tokenizer(TokenizerOptions(attributes=True, numbers=True))
    for _, raw in letters(20):
        message = Message.parse(raw)
        tokens = tokenizer.tokenize(message)
        assert tokens.attributes
        assert tokens.numbers
        assert (
            CheckedMessage.unpack(message.key, CheckedMessage(message.key, tokens, 0.5, "ham").pack()).tokens
            == tokens
        )


async def test_the_rule_that_decided_comes_back(client: Redis) -> None:
    message = replace(checked(1), policy="*@x.example")

    assert CheckedMessage.unpack("m1", message.pack()) == message
    assert CheckedMessage.unpack("m1", checked(1).pack()).policy == "default"


async def test_a_message_is_recalled_as_it_was_until_it_expires(client: Redis) -> None:
    memory = await written(client, range(3), RecentMessagesOptions(seconds=3600))

    assert await memory.recall("m1") == checked(1)
    assert await memory.recall("m9") is None
    assert 3500 < await client.ttl(KEYS.checked("m1")) <= 3600
    assert 3500 < await client.ttl(KEYS.recent) <= 3600

    await client.pexpire(KEYS.checked("m1"), 0)
    assert await memory.recall("m1") is None
    assert [each.key async for each in memory.newest(10)] == ["m2", "m0"]


def why(at: float) -> Explanation:
    return Explanation(
        at,
        "unsure",
        "learning 0/2",
        0.001,
        0.75,
        0.5,
        Thresholds(),
        ModelState({"ham": 0, "spam": 0}, {"ham": 1, "spam": 1}),
        (CountedClue(b"body:1", 0.25, 0, 1000),),
    )


async def test_why_is_recalled_with_the_message_and_the_time_of_its_check(client: Redis) -> None:
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped())
    before = time.time()
    async with running(memory):
        memory.remember(checked(1), why)
        memory.remember(checked(2))
        await memory.wait_until_written()

    found = await memory.recall_with_explanation("m1")

    assert found is not None
    assert found[0] == checked(1) == await memory.recall("m1")
    assert found[1] is not None
    assert before <= found[1].at <= time.time()
    assert found[1] == why(found[1].at)
    assert await memory.recall_with_explanation("m2") == (checked(2), None)
    assert await memory.recall_with_explanation("m3") is None
    assert [each.key async for each in memory.newest(9)] == ["m2", "m1"]


async def test_switched_off_no_explanation_is_made_or_kept_and_the_message_is(client: Redis) -> None:
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(explanations=False), Dropped())
    async with running(memory):
        memory.remember(checked(1), fails)
        await memory.wait_until_written()

    assert await memory.recall_with_explanation("m1") == (checked(1), None)
    assert await client.get(KEYS.checked("m1")) == checked(1).pack()


def fails(at: float) -> Explanation:
    raise AssertionError(at)


async def test_a_message_is_recalled_whatever_stands_behind_it(client: Redis) -> None:
    await client.set(KEYS.checked("m1"), checked(1).pack() + b"9 of a later version")
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped())

    assert await memory.recall("m1") == checked(1)
    with pytest.raises(StoreIncompatible):
        await memory.recall_with_explanation("m1")


async def test_what_is_not_written_yet_is_known_here(client: Redis) -> None:
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped())
    memory.remember(checked(1), why)
    memory.remember(checked(2))

    assert await memory.recall("m1") == checked(1)
    assert await memory.recall_with_explanation("m2") == (checked(2), None)
    found = await memory.recall_with_explanation("m1")
    assert await client.keys("*") == []

    async with running(memory):
        await memory.wait_until_written()
    assert not memory._unwritten
    assert await memory.recall_with_explanation("m1") == found


async def test_what_another_process_has_just_checked_is_known_too(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.store.recent.checked_messages._WRITTEN_SECONDS", 1.0)
    here, there = (
        RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()),
        RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()),
    )
    async with running(there):
        there.remember(checked(1))

        assert await here.recall("m1") == checked(1)


async def test_of_a_message_checked_twice_at_once_the_later_check_is_known(client: Redis) -> None:
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped())
    memory.remember(checked(1))
    later = replace(checked(1), verdict="spam")
    memory.remember(later)

    assert await memory.recall("m1") == later
    async with running(memory):
        await memory.wait_until_written()
    assert await memory.recall("m1") == later
    assert await client.zcard(KEYS.recent) == 1


async def test_an_explanation_of_an_older_version_is_not_remembered_and_its_message_is(client: Redis) -> None:
    await client.set(KEYS.checked("m1"), checked(1).pack() + b"1 of an older version")

    assert await RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()).recall_with_explanation(
        "m1"
    ) == (checked(1), None)


async def test_the_newest_come_first(client: Redis) -> None:
    memory = await written(client, range(250), RecentMessagesOptions())

    assert [each.key async for each in memory.newest(3)] == ["m249", "m248", "m247"]
    assert [each.key async for each in memory.newest(1000)] == [f"m{number}" for number in reversed(range(250))]
    assert [each async for each in memory.newest(0)] == []


async def test_a_message_checked_again_is_the_newest_and_still_one(client: Redis) -> None:
    await written(client, range(5), RecentMessagesOptions())
    memory = await written(client, range(1), RecentMessagesOptions())

    assert [each.key async for each in memory.newest(9)] == ["m0", "m4", "m3", "m2", "m1"]


async def test_of_more_than_permitted_the_oldest_go_and_leave_nothing(client: Redis) -> None:
    memory = await written(client, range(100), RecentMessagesOptions(messages=30))

    assert [each.key async for each in memory.newest(100)] == [f"m{number}" for number in range(99, 69, -1)]
    assert len(await client.keys("*")) == 31


async def test_a_limit_that_was_lowered_is_reached_by_small_steps(client: Redis) -> None:
    await written(client, range(100), RecentMessagesOptions())
    memory = await written(client, range(100, 110), RecentMessagesOptions(messages=20))
    assert 20 < await client.zcard(KEYS.recent) <= 100

    memory = await written(client, range(110, 200), RecentMessagesOptions(messages=20))
    assert [each.key async for each in memory.newest(100)] == [f"m{number}" for number in range(199, 179, -1)]
    assert len(await client.keys("*")) == 21


async def test_switched_off_nothing_is_written(client: Redis) -> None:
    await written(client, range(5), RecentMessagesOptions(messages=0))

    assert await client.keys("*") == []


async def test_what_finds_no_place_in_the_queue_is_dropped_and_counted(client: Redis) -> None:
    dropped = Dropped()
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), dropped)

    for number in range(MAX_QUEUED + 7):
        memory.remember(checked(number))
    assert dropped.count == 7

    async with running(memory):
        await memory.wait_until_written()
    assert await client.zcard(KEYS.recent) == MAX_QUEUED
    assert await memory.recall(f"m{MAX_QUEUED}") is None


async def test_while_redis_is_away_messages_are_dropped_and_counted_and_later_ones_written(
    own_redis: RedisServer,
) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    dropped = Dropped()
    memory = RecentMessages(client, KEYS, RecentMessagesOptions(), dropped)
    own_redis.stop()
    async with running(memory):
        for number in range(40):
            memory.remember(checked(number))
        await memory.wait_until_written()
        assert dropped.count == 40
        with pytest.raises(StoreUnavailable):
            await memory.recall("m1")

        own_redis.start()
        memory.remember(checked(41))
        await memory.wait_until_written()
    assert await memory.recall("m41") == checked(41)
    assert dropped.count == 40
    await client.aclose()


@pytest.mark.parametrize(("moment", "count"), [("gathering", 3), ("writing", 40)])
async def test_what_is_not_written_at_the_end_is_counted(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, moment: str, count: int
) -> None:
    asked = asyncio.Event()

    async def ask(request: bytes) -> Fate:
        if b"EVALSHA" in request:
            asked.set()
            return Fate.KEEP_REPLY
        return Fate.PASS

    dropped = Dropped()
    async with Proxy(shared_redis.socket, tmp_path / "s", ask) as way:
        stalled = open_client(ConnectionOptions(way.url))
        memory = RecentMessages(stalled, KEYS, RecentMessagesOptions(), dropped)
        async with running(memory):
            for number in range(count):
                memory.remember(checked(number))
            await (asyncio.sleep(0) if moment == "gathering" else asked.wait())
        await stalled.aclose()

    assert dropped.count == count


async def test_what_an_older_version_deflated_without_a_dictionary_is_read(client: Redis) -> None:
    await client.set(KEYS.checked("m1"), zlib.compress(b"0.001 unsure\0subject:x\0body:1\0\0", 1))

    assert await RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()).recall("m1") == checked(1)


async def test_what_was_deflated_with_the_dictionary_is_read_for_ever(client: Redis) -> None:
    stored = "482c2119b90233d0335528cd2b2e2d4a6580469c550503440d0303008eff0941"
    await client.set(KEYS.checked("m"), bytes.fromhex(stored))

    expected = CheckedMessage("m", Tokens((b"subject:x",), (b"body:a",)), 0.5, "unsure")
    assert await RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()).recall("m") == expected


@pytest.mark.parametrize(
    "stored",
    [b"something else", zlib.compress(b"0.5 ham\0\0\0\0\0\xff"), zlib.compress(b"0.5 ham\0\0\0\0\0*@x\0more")],
)
async def test_what_another_program_wrote_is_refused(client: Redis, stored: bytes) -> None:
    await client.set(KEYS.checked("m1"), stored)

    with pytest.raises(StoreIncompatible):
        await RecentMessages(client, KEYS, RecentMessagesOptions(), Dropped()).recall("m1")


async def test_who_has_the_message_does_not_wait(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.store.recent.checked_messages._WRITTEN_SECONDS", 3600.0)
    memory = await written(client, range(1, 2), RecentMessagesOptions())
    assert await asyncio.wait_for(memory.recall_with_explanation("m2", wait=False), DEADLINE_SECONDS) is None
