"""The vocabulary stays within its limit, the least important tokens go first, and totals match the counts."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES, automatic_columns
from nbstream.bayes.counts import WEIGHT_ONE, is_sum
from nbstream.server.background import BackgroundTasks
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.eviction import START_SHARE, TARGET_SHARE, Evictor
from nbstream.store.model.model import Model
from tests.harness.algebra import stored
from tests.harness.followers import running
from tests.harness.lessons import MESSAGES, TOKENS, Step, change, entry, steps
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.store.follower.test_counts import equals_redis

LIMIT = 10_000
TARGET = int(TARGET_SHARE * LIMIT)


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


@pytest.fixture
async def followed(model: Model) -> AsyncIterator[FollowedCounts]:
    async with running(FollowedCounts(model)) as running_counts:
        yield running_counts


@asynccontextmanager
async def running_evictor(evictor: Evictor) -> AsyncIterator[BackgroundTasks]:
    background = BackgroundTasks(lambda _name, _failures: None)
    background.every("evictor", 0.0, evictor.step)
    try:
        yield background
    finally:
        await background.stop()


def make_evictor(
    model: Model, followed: FollowedCounts, limit: int, evicted: Callable[[int], object] = int
) -> Evictor:
    return Evictor(model, followed, limit, evicted)


async def caught_up(model: Model, followed: FollowedCounts) -> None:
    await followed.wait_until_applied(await model.last_change())


async def expire(model: Model, message: str) -> None:
    """What Redis does when the ledger's lifetime is over."""
    await model.client.delete(model.keys.ledger(message))


async def assert_totals_match(model: Model) -> None:
    """Totals are the sums of the counts, and the vocabulary is the number of tokens with a count above zero."""
    counts, totals = await stored(model)
    tokens = {
        column: {name: count for name, count in of_column.items() if not is_sum(name)}
        for column, of_column in counts.items()
    }
    for column, of_column in tokens.items():
        assert totals.get(f"tokens:{column}".encode(), 0) == sum(of_column.values())
    vocabulary_tokens = {token for of_column in tokens.values() for token, count in of_column.items() if count > 0}
    assert totals.get(b"vocabulary", 0) == len(vocabulary_tokens)


async def vocabulary(model: Model) -> set[bytes]:
    return set((await model.counts()).tokens())


# What is evicted, and what stays


async def test_endless_unique_tokens_stay_within_the_limit_and_followers_equal_redis(
    model: Model, followed: FollowedCounts
) -> None:
    generator, evicted, largest = random.Random(1), list[int](), 0
    async with running(FollowedCounts(model)) as other:
        async with running_evictor(make_evictor(model, followed, LIMIT, evicted.append)):
            for number in range(200):
                tokens = [b"%016x" % generator.getrandbits(64) for _ in range(300)]
                new = entry(CLASSES[number % 2], tokens, generator.randint(1, 1000))
                await followed.wait_until_applied(await change(model, f"m{number}", new) or b"")
                largest = max(largest, followed.vocabulary_size)
            await until(lambda: followed.vocabulary_size == 60_000 - sum(evicted) <= START_SHARE * LIMIT)
        await asyncio.gather(caught_up(model, followed), caught_up(model, other))

        left = sorted(await vocabulary(model))
        assert len(left) <= START_SHARE * LIMIT < largest
        assert max(evicted) <= 250  # at a time: Redis does nothing else meanwhile
        for follower in (followed, other):
            assert await equals_redis(follower, model, left)
            assert sorted(follower.snapshot()[0]) == left
    await assert_totals_match(model)


async def test_what_people_taught_and_what_was_learned_without_them_have_the_limit_each(
    model: Model, followed: FollowedCounts
) -> None:
    people, others = [b"p%05d" % n for n in range(9_800)], [b"a%05d" % n for n in range(9_900)]
    automatic_spam = automatic_columns(0)[CLASSES.index("spam")]
    async with running_evictor(make_evictor(model, followed, LIMIT)):
        await change(model, "taught", entry("ham", people))
        await change(model, "automatic", entry(automatic_spam, others))

        await until(lambda: followed.vocabulary_size == len(followed.group(automatic=True).tokens()) == TARGET)


async def test_tokens_in_no_live_ledger_entry_go_first(model: Model, followed: FollowedCounts) -> None:
    live, dead = [b"live:%d" % n for n in range(5_000)], [b"dead:%d" % n for n in range(6_000)]
    await change(model, "old", entry("spam", [*dead, *live[:10]], WEIGHT_ONE))
    await expire(model, "old")
    await change(model, "new", entry("ham", live, 1))
    await caught_up(model, followed)

    assert await make_evictor(model, followed, LIMIT).evict_once() == 11_000 - TARGET

    left = await vocabulary(model)
    assert left >= set(live)
    assert len(left) == TARGET
    await assert_totals_match(model)


async def test_then_the_least_learned_tokens_go_and_of_equal_ones_the_first_by_name(
    model: Model, followed: FollowedCounts
) -> None:
    tokens = [b"t%05d" % n for n in range(10_500)]
    order = random.Random(2).sample(tokens, len(tokens))
    await change(model, "m1", entry("spam", order, 100))
    await change(model, "m2", entry("ham", tokens[:500], 1))  # by sum more than the others
    await change(model, "m3", entry("ham", tokens[-700:], 1))
    await caught_up(model, followed)

    await make_evictor(model, followed, LIMIT).evict_once()

    assert await vocabulary(model) == set(tokens[:500]) | set(tokens[10_500 - TARGET + 500 :])


async def test_an_eviction_reaches_its_target_though_more_is_learned_while_it_goes_on(
    model: Model, followed: FollowedCounts
) -> None:
    await change(model, "m1", entry("spam", [b"t%d" % n for n in range(12_000)]))
    await caught_up(model, followed)
    started = asyncio.Event()

    async def flood() -> None:
        await started.wait()
        await change(model, "m2", entry("spam", [b"later%d" % n for n in range(500)]))

    flooding = asyncio.create_task(flood())
    assert await make_evictor(model, followed, LIMIT, lambda _: started.set()).evict_once() == 12_500 - TARGET
    await flooding

    assert followed.vocabulary_size == TARGET
    assert await vocabulary(model) >= {b"later%d" % n for n in range(500)}


# Totals and counts


moves = st.lists(
    st.tuples(st.just("mend"), st.just(0))
    | st.tuples(st.just("evict"), st.integers(0, len(TOKENS)))
    | st.tuples(st.just("learn"), st.integers(0, 11)),
    max_size=14,
)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, moves=moves)
async def test_totals_are_the_sums_of_the_counts_whatever_is_forgotten_in_between(
    client: Redis, steps: list[Step], moves: list[tuple[str, int]]
) -> None:
    await client.flushall()
    model = Model(client, "test", ledger_seconds=3600)

    for move, number in moves:
        if move == "learn":
            for message, new in steps[number : number + 2]:
                await change(model, message, entry(*new) if new else None)
        else:
            counts, totals = await model.look_up_columns(TOKENS)
            await model.evict(TOKENS, counts, number if move == "evict" else None, totals.columns)
        await assert_totals_match(model)

    for message in MESSAGES:
        await change(model, message, None)
    counts, totals = await model.look_up_columns(TOKENS)
    await model.evict(TOKENS, counts, None, totals.columns)
    await model.evict(TOKENS, np.maximum(counts, 0), 0, totals.columns)
    assert (await stored(model))[1] == {}


async def test_a_token_that_a_new_column_has_by_now_stays(model: Model) -> None:
    await change(model, "m1", entry("ham", TOKENS, 5))
    counts, totals = await model.look_up_columns(TOKENS)
    await change(model, "m2", entry("newsletter", TOKENS[:3], 1))
    before = await stored(model)

    assert await model.evict(TOKENS, counts, 0, totals.columns) is None

    assert await stored(model) == before


# When Redis is in trouble


async def test_the_counts_are_read_in_the_thread_that_changes_them(
    model: Model, followed: FollowedCounts, monkeypatch: pytest.MonkeyPatch
) -> None:
    await followed.wait_until_applied(await change(model, "m", entry("spam", [b"a", b"b"])) or b"")
    counts, threads = followed.group(automatic=False), list[threading.Thread]()
    snapshot_columns = counts.snapshot_columns

    def note_thread() -> tuple[list[bytes], NDArray[np.int64]]:
        threads.append(threading.current_thread())
        return snapshot_columns()

    monkeypatch.setattr(counts, "snapshot_columns", note_thread)
    assert await make_evictor(model, followed, 1).evict_once() == 2
    assert threads == [threading.main_thread()]


async def test_a_server_out_of_memory_can_still_evict(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    model = Model(client, "test", 3600)
    await change(model, "m1", entry("spam", TOKENS))
    counts_before, _ = await model.look_up(TOKENS)
    await client.config_set("maxmemory", "1")

    await model.evict(TOKENS, counts_before, 3, CLASSES)

    await client.config_set("maxmemory", "0")
    await assert_totals_match(model)
    assert (await model.totals()).vocabulary_size == 3
    await client.aclose()


async def test_a_failed_eviction_is_tried_again(own_redis: RedisServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nbstream.store.follower.eviction._NOTHING_SECONDS", 0.01)
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))
    model = Model(client, "test", 3600)
    async with running(FollowedCounts(model)) as followed:
        await change(model, "m1", entry("spam", [b"t%d" % n for n in range(10_001)]))
        await caught_up(model, followed)
        own_redis.stop()
        await until(lambda: not followed.is_current)
        async with running_evictor(make_evictor(model, followed, LIMIT)) as background:
            await until(lambda: background.failing == ["evictor"])
            own_redis.start()  # empty
            await until(lambda: followed.vocabulary_size == 0)
            await change(model, "m1", entry("spam", [b"t%d" % n for n in range(10_001)]))
            await until(lambda: followed.vocabulary_size == TARGET)
    await client.aclose()
