"""``store.activity``: what processes count together, and what becomes of it when Redis is away."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreForbids, StoreUnavailable
from nbstream.policy.verdict import Verdict
from nbstream.store import activity
from nbstream.store.activity import (
    HOURS_LIFE_SECONDS,
    ActivityCounter,
    ActivityReader,
    ActivitySpan,
    ActivityWriter,
    ListenerConnections,
    ProcessStatus,
    Slot,
    bucket_limit,
    parse_counts,
    sum_activity,
    watch_activity,
)
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from tests.conftest import RedisServer
from tests.waiting import DEADLINE_SECONDS

KEYS = ModelKeys("m")
NOON = 1_700_000_000 // 86_400 * 86_400 + 12 * 3600  # a whole hour
STATUS = ProcessStatus("mx1", 1, "0.7.0", True, 0.0, 3, {"smtp": ListenerConnections(2, 5, 1)})

CHECKS = st.tuples(st.sampled_from(Verdict), st.floats(min_value=0, max_value=1e6))


class Process:
    """A process that counts."""

    def __init__(self, client: Redis, host: str = "mx1") -> None:
        self.counter = ActivityCounter()
        self.drops: list[int] = []
        self.writer = ActivityWriter(
            client,
            KEYS,
            self.counter,
            f"{host}/1",
            lambda: replace(STATUS, host=host),
            self.drops.append,
        )

    async def check(self, at: float, *verdicts: Verdict, seconds: float = 0.001) -> None:
        for verdict in verdicts:
            self.counter.count(verdict, seconds)
        await self.writer.write(at)


async def connect(server: RedisServer, **options: Any) -> Redis:
    """A client that does not retry, of a server that answers."""
    patient = open_client(ConnectionOptions(server.url))
    await patient.ping()
    await patient.aclose()
    return open_client(ConnectionOptions(server.url, **options), retries=0)


async def totals(client: Redis, now: float, span: ActivitySpan = ActivitySpan.HOUR) -> dict[str, int]:
    """The numbers of messages that a new reader finds, without zeros, and how many may be missing."""
    found, _ = await ActivityReader(client, KEYS).read(span, now)
    return {name: number for name, number in (*found.totals.items(), ("dropped", found.dropped)) if number}


@given(st.lists(st.tuples(st.lists(CHECKS, max_size=5), st.booleans()), max_size=20))
def test_any_split_into_writes_gives_the_same_sums(
    seconds: Sequence[tuple[Sequence[tuple[Verdict, float]], bool]],
) -> None:
    several, at_once, stored = ActivityCounter(), ActivityCounter(), Counter[str]()
    for checks, is_written in seconds:
        for verdict, duration in checks:
            several.count(verdict, duration)
            at_once.count(verdict, duration)
        if is_written:
            stored.update(several.take())
    stored.update(several.take())

    assert stored == at_once.take()
    assert sum(stored[verdict] for verdict in Verdict) == sum(len(checks) for checks, _ in seconds)


@given(
    st.dictionaries(st.integers(-20_000, 100), st.integers(1, 50), max_size=50),
    st.sampled_from(ActivitySpan),
    st.integers(0, 7200),
)
def test_all_minutes_of_the_span_are_in_the_sums_once_and_no_others(
    minutes: dict[int, int], span: ActivitySpan, late: int
) -> None:
    now = NOON + late
    slots = {NOON // 60 + minute: Slot({Verdict.HAM: number}, {5: number}) for minute, number in minutes.items()}

    found = sum_activity(span, slots, 60, now)

    first = found.steps[0].at
    inside = [
        number
        for minute, number in minutes.items()
        if first <= NOON + 60 * minute < found.steps[-1].at + span.step_seconds
    ]
    assert found.totals[Verdict.HAM] == sum(inside) == sum(found.latencies.values())
    assert len(found.steps) * span.step_seconds == span.seconds
    assert found.steps[-1].at <= now < found.steps[-1].at + span.step_seconds
    assert sum(step.messages for step in found.grouped(lambda at: at - at % 3600)) == sum(inside)


@given(CHECKS)
def test_a_duration_is_below_the_limit_of_its_bucket_and_at_least_half_of_it(check: tuple[Verdict, float]) -> None:
    counter = ActivityCounter()
    counter.count(*check)

    (bucket,) = parse_counts({f"0:{name}".encode(): b"1" for name in counter.take()})[0].latencies
    duration = check[1]
    assert duration < bucket_limit(bucket) or bucket == activity.LATENCY_BUCKETS - 1
    assert duration >= bucket_limit(bucket) / 2 or bucket == 0


def test_latencies_are_said_as_the_time_that_a_share_stayed_below() -> None:
    found = sum_activity(ActivitySpan.HOUR, {NOON // 60: Slot({}, {4: 98, 10: 2})}, 60, NOON)

    assert found.latency(0.5) == 0.001
    assert found.latency(0.99) == 0.064
    assert sum_activity(ActivitySpan.HOUR, {}, 60, NOON).latency(0.5) is None


def test_what_another_version_counts_besides_is_left_out() -> None:
    fields = {
        b"3:ham": b"2",
        b"3:tarpit": b"7",
        b"3:t4": b"2",
        b"3:total": b"9",
        b"3:t\xff": b"1",
        b"3:dropped": b"4",
    }

    assert parse_counts(fields) == {3: Slot({"ham": 2}, {4: 2}, 4)}


async def test_processes_of_all_hosts_add_to_the_same_numbers(client: Redis) -> None:
    first, second = Process(client), Process(client, "mx2")
    await first.check(NOON, Verdict.HAM, Verdict.SPAM)
    await second.check(NOON + 1, Verdict.HAM)
    await second.check(NOON + 60, Verdict.HAM)

    found, processes = await ActivityReader(client, KEYS).read(ActivitySpan.HOUR, NOON + 60)

    assert [step.classes for step in found.steps[-2:]] == [{"ham": 2, "spam": 1}, {"ham": 1}]
    assert found.latency(1.0) == 0.002
    assert [(seen.at, seen.status.host) for seen in processes] == [(NOON, "mx1"), (NOON + 1, "mx2")]
    assert processes[0].status == STATUS


@pytest.mark.parametrize(
    ("span", "age"), [(ActivitySpan.HOUR, 3500), (ActivitySpan.DAY, 86_000), (ActivitySpan.WEEK, 600_000)]
)
async def test_what_is_younger_than_the_span_is_shown(client: Redis, span: ActivitySpan, age: int) -> None:
    await Process(client).check(NOON, Verdict.HAM)

    assert await totals(client, NOON + age, span) == {"ham": 1}
    assert await totals(client, NOON + age + 8000, span) == {}


async def test_everything_that_is_written_ends_by_itself(client: Redis) -> None:
    await Process(client).check(NOON, Verdict.HAM)

    keys: Any = await client.keys()
    lives = {key.decode().removeprefix("nbstream:{m}:activity:"): await client.ttl(key) for key in keys}
    assert lives == {
        f"minutes:{NOON // 3600}": 25 * 3600,
        f"hours:{NOON // 86_400}": 8 * 86_400 + 3600,
        "processes": 3600,
    }


async def test_nothing_is_written_where_nothing_is_new(client: Redis) -> None:
    process = Process(client)
    await process.check(NOON)  # how the process is
    before = (await client.info("commandstats"))["cmdstat_evalsha"]["calls"]
    await process.check(NOON + 1)
    await process.check(NOON + 2)

    assert (await client.info("commandstats"))["cmdstat_evalsha"]["calls"] == before


async def test_hours_that_are_over_are_read_once(client: Redis) -> None:
    await Process(client).check(NOON, Verdict.HAM)
    reader, now = ActivityReader(client, KEYS), NOON + 7200 + 300
    await reader.read(ActivitySpan.DAY, now)
    before = (await client.info("commandstats"))["cmdstat_hgetall"]["calls"]

    found, _ = await reader.read(ActivitySpan.DAY, now)

    assert found.totals[Verdict.HAM] == 1
    assert (await client.info("commandstats"))["cmdstat_hgetall"][
        "calls"
    ] == before + 2  # this hour, and processes


async def test_what_is_added_late_to_an_hour_that_is_over_shows_in_the_end(client: Redis) -> None:
    reader, now = ActivityReader(client, KEYS), NOON + 7200 + 300
    await reader.read(ActivitySpan.DAY, now)
    await Process(client).check(
        NOON, Verdict.HAM
    )  # of a host that could not reach Redis, or whose clock is behind

    found, _ = await reader.read(ActivitySpan.DAY, now + 300)

    assert found.totals[Verdict.HAM] == 1


async def test_those_who_read_at_once_do_not_disturb_each_other(client: Redis) -> None:
    await Process(client).check(NOON, Verdict.HAM)
    reader, now = ActivityReader(client, KEYS), NOON + 7200 + 300
    await reader.read(ActivitySpan.DAY, now)

    several = await asyncio.gather(
        *(reader.read(span, now + late) for late in (1, 301) for span in (ActivitySpan.DAY, ActivitySpan.WEEK))
    )

    assert [found.totals[Verdict.HAM] for found, _ in several] == [1, 1, 1, 1]


async def test_what_cannot_be_written_is_dropped_and_counted_and_never_doubled(own_redis: RedisServer) -> None:
    client = await connect(own_redis, timeout_seconds=0.3)
    process = Process(client)
    await process.check(NOON, Verdict.HAM)
    own_redis.hang()  # it has the command, and will execute it, but does not answer in time
    await process.check(NOON, Verdict.HAM, Verdict.SPAM)
    own_redis.go_on()
    await process.check(NOON, Verdict.HAM)

    assert process.drops == [2]
    assert await totals(client, NOON) in ({"ham": 2, "dropped": 2}, {"ham": 3, "spam": 1, "dropped": 2})
    await client.aclose()


async def test_what_was_dropped_is_said_of_its_time_and_outlives_its_process(own_redis: RedisServer) -> None:
    client = await connect(own_redis)
    process = Process(client)
    own_redis.stop()
    with pytest.raises(StoreUnavailable):
        await totals(client, NOON)
    process.counter.count_unchecked()
    await process.check(NOON, Verdict.HAM)
    await process.check(NOON + 1, Verdict.HAM)
    await process.check(NOON + 7200, Verdict.SPAM)
    own_redis.start()
    await (await connect(own_redis)).aclose()

    await process.check(NOON + 7201, Verdict.HAM)
    await process.check(NOON + 7202, Verdict.HAM)  # it is said once
    await process.writer.leave()

    assert process.drops == [2, 1, 1]
    assert await totals(client, NOON + 7202) == {"ham": 2, "dropped": 1}
    for span in (ActivitySpan.DAY, ActivitySpan.WEEK):
        assert await totals(client, NOON + 7202, span) == {"ham": 2, "dropped": 4}
    await client.aclose()


async def test_what_was_dropped_too_long_ago_is_forgotten(own_redis: RedisServer) -> None:
    client = await connect(own_redis)
    process = Process(client)
    own_redis.stop()
    await process.check(NOON, Verdict.HAM)
    own_redis.start()
    await (await connect(own_redis)).aclose()

    await process.check(NOON + HOURS_LIFE_SECONDS + 60)

    assert [key for key in await client.keys() if b"activity:hours" in key] == []
    await client.aclose()


async def test_a_message_whose_check_failed_counts_as_unchecked(client: Redis) -> None:
    process = Process(client)
    process.counter.count_unchecked()
    await process.check(NOON, Verdict.HAM)

    found, _ = await ActivityReader(client, KEYS).read(ActivitySpan.HOUR, NOON)

    assert found.steps[-1].classes == {"ham": 1, "unchecked": 1}
    assert (found.steps[-1].messages, sum(found.latencies.values())) == (2, 1)


async def test_a_process_says_how_it_is_until_it_leaves(client: Redis) -> None:
    process, other = Process(client), Process(client, "mx2")
    await process.check(NOON)
    await other.check(NOON)
    process.counter.count(Verdict.HAM, 0.001)
    await process.writer.leave()

    assert await client.hkeys(KEYS.activity_processes) == [b"mx2/1"]
    assert sum(map(int, await client.hvals(next(key for key in await client.keys() if b"minutes" in key)))) == 2


async def test_processes_that_are_silent_for_long_are_forgotten(client: Redis) -> None:
    await Process(client).check(NOON)
    await client.hset(KEYS.activity_processes, "odd", "no time")
    await Process(client, "mx2").check(NOON + 601)

    assert await client.hkeys(KEYS.activity_processes) == [b"mx2/1"]


@pytest.mark.parametrize(
    "packed",
    [
        "",
        "12 {}",
        "12 []",
        "x {",
        '12 {"connections": 1}',
        f"{2**40} {json.dumps(asdict(STATUS))}",
        f"nan {json.dumps(asdict(STATUS))}",
        f"12 {json.dumps('x')}",
        "12 "
        + json.dumps({**asdict(STATUS), "quarantined": 0}).replace('"quarantined": 0', '"quarantined": 1e999'),
        "12 " + json.dumps(asdict(STATUS)).replace('"worker": 1', '"worker": -1'),
        "12 " + json.dumps(asdict(replace(STATUS, lag_seconds=math.nan))),
        "12 " + "[" * 100_000,
    ],
)
async def test_what_another_version_says_of_itself_is_left_out(client: Redis, packed: str) -> None:
    await Process(client).check(NOON)
    await client.hset(KEYS.activity_processes, "odd", packed)

    _, processes = await ActivityReader(client, KEYS).read(ActivitySpan.HOUR, NOON)

    assert [seen.status.host for seen in processes] == ["mx1"]


async def test_who_listens_is_told_of_news_once_however_many_there_were(client: Redis) -> None:
    process = Process(client)
    async with watch_activity(client, KEYS) as watch:
        await process.check(NOON, Verdict.HAM)
        assert await watch.wait(DEADLINE_SECONDS)
        async with client.pipeline(transaction=True) as news:  # Redis sends them in one piece
            for _ in range(3):
                news.publish(KEYS.activity_channel, "1")
            await news.execute()
        assert await watch.wait(DEADLINE_SECONDS)
        assert not await watch.wait(0.0)


async def test_who_listens_is_told_when_redis_goes(own_redis: RedisServer) -> None:
    client = await connect(own_redis)
    async with watch_activity(client, KEYS) as watch:
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await watch.wait(DEADLINE_SECONDS)
    with pytest.raises(StoreUnavailable):
        async with watch_activity(client, KEYS):
            pass
    await client.aclose()


async def test_a_user_of_redis_who_may_not_publish_counts_all_the_same(own_redis: RedisServer) -> None:
    admin = await connect(own_redis)
    rights = "~nbstream:* resetchannels +@all -publish -subscribe"
    await admin.execute_command("ACL", "SETUSER", "few", "on", "nopass", *rights.split())  # type: ignore[no-untyped-call]  # redis-py has no type here
    client = await connect(own_redis, password="x", user="few")
    process = Process(client)

    await process.check(NOON, Verdict.HAM)

    assert (process.drops, await totals(client, NOON)) == ([], {"ham": 1})
    assert not process.writer.may_publish
    with pytest.raises(StoreForbids):
        async with watch_activity(client, KEYS):
            pass
    await client.aclose()
    await admin.aclose()
