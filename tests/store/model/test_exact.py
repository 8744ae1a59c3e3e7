"""Learning stays addition with several writers at once and when connections break: each lesson counts once."""

from __future__ import annotations

import asyncio
import itertools
import random
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.algebra import (
    NOTHING,
    live_entries,
    prequential_scores,
    prequential_scores_of_entries,
    stored,
    summed,
)
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import replicated
from tests.harness.waiting import until
from tests.store.writers import (
    LETTERS,
    Plan,
    PlanWriter,
    has_changed,
    other_process,
    random_plans,
    wait_until_written,
    write,
    write_in_bulk,
)

DURABLE = ("--appendonly", "yes", "--appendfsync", "always")


def model_of(client: Redis) -> Model:
    return Model(client, "test", 3600)


def separate_plans(seed: int, writers: int, steps: int) -> list[Plan]:
    """Plans without common messages, so that the last label of each message is known."""
    plans = random_plans(seed, writers, len(LETTERS) // writers, steps)
    return [[(number * writers + writer, label) for number, label in plan] for writer, plan in enumerate(plans)]


def last_labels(plans: list[Plan]) -> dict[str, str]:
    """What each message was last learned as, by its key."""
    final = {LETTERS[number].key: label for plan in plans for number, label in plan}
    return {key: label for key, label in final.items() if label}


async def learned(model: Model) -> dict[str, str]:
    """What each message is learned as, by its key."""
    return {key: entry.label for key, entry in (await live_entries(model)).items()}


# Writers at once


async def by_two_processes(url: str, plans: list[Plan]) -> None:
    """Half of the writers are in this process, half in another one."""
    half = len(plans) // 2
    async with other_process(url, plans[half:]) as process:
        await write(url, plans[:half])
        await wait_until_written(process)


some_plans = st.lists(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from((*CLASSES, None))), max_size=5), min_size=8, max_size=8
)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(plans=some_plans)
async def test_the_lessons_of_8_writers_in_two_processes_end_at_the_sum_over_the_ledger(
    client: Redis, shared_redis: RedisServer, plans: list[Plan]
) -> None:
    await client.flushall()
    model = model_of(client)

    await by_two_processes(shared_redis.url, plans)
    assert await stored(model) == await summed(model)
    assert await prequential_scores(model) == await prequential_scores_of_entries(model)

    await write(shared_redis.url, [[(number, None) for number in range(4)]])
    assert (await stored(model), await live_entries(model)) == (NOTHING, {})


# Connections that break


@pytest.mark.parametrize("fate", [Fate.LOSE_REQUEST, Fate.LOSE_REPLY])
async def test_lessons_whose_connection_breaks_count_once(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, fate: Fate
) -> None:
    draw, plans = random.Random(6), separate_plans(seed=7, writers=4, steps=12)

    async def now_and_then(request: bytes) -> Fate:
        return fate if draw.random() < 0.2 else Fate.PASS

    async with Proxy(shared_redis.socket, tmp_path / "s", now_and_then) as proxy:
        await write(proxy.url, plans)
        assert proxy.broken > 20

    model = model_of(client)
    assert await stored(model) == await summed(model)
    assert await prequential_scores(model) == await prequential_scores_of_entries(model)
    assert await learned(model) == last_labels(plans)


# Ends by kill -9

FEW: Plan = [(0, "ham"), (0, "spam"), (0, None)]
FEW_IN_BULK: Plan = [*((n, "ham") for n in range(3)), *((n, "spam") for n in range(1, 4)), (2, None)]


@pytest.mark.parametrize(("plan", "write_all"), [(FEW, write), (FEW_IN_BULK, write_in_bulk)], ids=["each", "bulk"])
async def test_a_writer_killed_between_any_two_steps_leaves_no_half_and_what_it_repeats_counts_once(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, plan: Plan, write_all: PlanWriter
) -> None:
    """Redis sees no difference between an end before an answer, and one after it but before the next request."""
    model, steps = model_of(client), 0
    while await ends_at(steps, shared_redis, tmp_path / "s", plan, write_all):
        assert await stored(model) == await summed(model)
        assert await prequential_scores(model) == await prequential_scores_of_entries(model)
        await write_all(shared_redis.url, [plan])
        assert await stored(model) == await summed(model)
        assert await prequential_scores(model) == await prequential_scores_of_entries(model)
        assert await learned(model) == last_labels([plan])
        await client.flushall()
        steps += 1

    assert steps > 3 * len(list(itertools.groupby(plan, key=lambda taught: taught[1])))


async def ends_at(step: int, redis: RedisServer, socket: Path, plan: Plan, write_all: PlanWriter) -> bool:
    """Kill a writer while it waits for its reply number ``step``; return False where it ended before."""
    requests = 0

    async def keep_one_reply(request: bytes) -> Fate:
        nonlocal requests
        requests += 1
        return Fate.KEEP_REPLY if requests == step + 1 else Fate.PASS

    async with (
        Proxy(redis.socket, socket, keep_one_reply) as proxy,
        other_process(proxy.url, [plan], write_all) as process,
    ):
        await until(lambda: proxy.broken > 0 or not process.is_alive())
        if not proxy.broken:
            await wait_until_written(process)
        return proxy.broken > 0


@pytest.mark.parametrize("write_all", [write, write_in_bulk], ids=["each", "bulk"])
async def test_a_server_that_is_killed_keeps_what_it_acknowledged_and_what_is_repeated_counts_once(
    own_redis: RedisServer, write_all: PlanWriter
) -> None:
    own_redis.stop()
    own_redis.start(*DURABLE)
    client = open_client(ConnectionOptions(own_redis.url))
    model, plans = model_of(client), separate_plans(seed=8, writers=4, steps=60)
    if write_all is write_in_bulk:  # the same label for many in a row
        plans = [sorted(plan, key=lambda taught: str(taught[1])) for plan in plans]

    async with other_process(own_redis.url, plans[2:], write_all) as process:
        writing = asyncio.create_task(write_all(own_redis.url, plans[:2]))
        for times in (20, 40, 60, 80):
            await until(partial(has_changed, model, times))
            own_redis.stop()
            own_redis.start(*DURABLE)
        await writing
        await wait_until_written(process)

    assert await stored(model) == await summed(model)

    assert await prequential_scores(model) == await prequential_scores_of_entries(model)
    assert await learned(model) == last_labels(plans)
    await client.aclose()


async def test_after_a_failover_that_lost_lessons_what_is_repeated_counts_once(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    plans = separate_plans(seed=9, writers=4, steps=40)
    promoted, requests = asyncio.Event(), itertools.count()

    async def hold_the_rest(request: bytes) -> Fate:
        """Most lessons come after the promotion, however fast the writers are."""
        if b"EVALSHA" in request and next(requests) >= 60:
            await promoted.wait()
        return Fate.PASS

    async with replicated(own_redis, tmp_path / "replica") as pair:
        before, after = model_of(pair.at_primary), model_of(pair.at_replica)
        async with (
            Proxy(own_redis.socket, tmp_path / "s", hold_the_rest) as proxy,
            other_process(proxy.url, plans[2:]) as process,
        ):
            writing = asyncio.create_task(write(proxy.url, plans[:2]))
            await until(lambda: has_changed(after, 30))
            await pair.promote()
            last_sequence = int(await after.client.get(after.keys.sequence) or 0)
            promoted.set()
            await until(lambda: has_changed(before, last_sequence + 10))
            own_redis.stop()
            proxy.target = pair.replica.socket
            proxy.cut()
            await writing
            await wait_until_written(process)

        assert await stored(after) == await summed(after)

        assert await prequential_scores(after) == await prequential_scores_of_entries(after)
        await write(pair.replica.url, plans)
        assert await stored(after) == await summed(after)
        assert await prequential_scores(after) == await prequential_scores_of_entries(after)
        assert await learned(after) == last_labels(plans)
