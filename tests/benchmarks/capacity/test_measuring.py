"""The measurements on a real Redis: what they return, and that they touch nothing but their model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.counts import ClassCounts
from nbstream.bayes.table_counts import TableCounts
from nbstream.cli.generated_mail import generate_mail
from nbstream.errors import StoreUnavailable
from nbstream.filter import RememberingObserver
from nbstream.policy.message_reader import MessageReader
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.model import Model
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.settings import MemorySettings
from tests.benchmarks.capacity import measuring
from tests.benchmarks.capacity.redis_costs import main_thread_seconds, server_name
from tests.conftest import RedisServer
from tests.engine.native import table_functions
from tests.filter.filters import make_filter

MAIL = list(generate_mail(24, 3))
READER = MessageReader()


@pytest.fixture
async def model(client: Redis) -> Model:
    return await Model(client, "test", 3600).open()


@pytest.fixture
async def readers(client: Redis, shared_redis: RedisServer) -> AsyncIterator[Redis]:
    other = open_client(ConnectionOptions(shared_redis.url))
    yield other
    await other.aclose()


async def test_teaching_returns_a_time_and_a_ledger_entry_of_each_lesson(client: Redis, model: Model) -> None:
    taught = await measuring.teach_mail(make_filter(client), model, MAIL, READER)

    assert len(taught.round_trips) == len(MAIL)
    assert min(taught.round_trips) > 0 < taught.redis
    assert sorted(entry.label for entry in taught.entries.values()) == ["ham"] * 12 + ["spam"] * 12
    assert sum((await model.totals()).messages) == len(MAIL)


async def test_copies_of_the_lessons_are_learned_once_more_under_other_keys(client: Redis, model: Model) -> None:
    taught = await measuring.teach_mail(make_filter(client), model, MAIL, READER)
    before = await model.totals()

    committed = await measuring.commit_copies(model, taught, "-again")

    after = await model.totals()
    assert after.messages == tuple(2 * count for count in before.messages)
    assert after.token_weights == tuple(2 * weight for weight in before.token_weights)
    assert committed.per_second > 0 < committed.process


async def test_a_mirror_that_follows_has_all_copies_at_the_end(
    client: Redis, readers: Redis, model: Model
) -> None:
    taught = await measuring.teach_mail(make_filter(client), model, MAIL, READER)

    async with measuring.following(Mirror(Model(readers, "test", 3600), 5.0)) as mirror:
        await measuring.commit_copies(model, taught, "-again", mirror)

        assert mirror.totals == await model.totals()


async def test_the_bytes_of_a_lesson_are_those_of_its_change_and_its_entry(client: Redis, model: Model) -> None:
    taught = await measuring.teach_mail(make_filter(client), model, MAIL[:1], READER)
    committed = await measuring.commit_copies(model, taught, "-again")
    newest: Any = await client.xrevrange(model.keys.changes)
    (_, fields), *_ = newest
    (key,) = taught.entries

    costs = await measuring.lesson_costs(model, taught, committed)

    tokens = b"\n".join(taught.entries[key].tokens)
    assert fields[b"tokens"].startswith(tokens)
    assert len(tokens) < costs.change_bytes < 3 * len(tokens)
    assert costs.ledger_bytes == await client.memory_usage(model.keys.ledger(key), samples=0)


async def test_checks_have_a_time_each_and_learn_nothing(client: Redis, model: Model) -> None:
    raws = [message.raw for message in MAIL]

    seconds = await measuring.measure_checks(make_filter(client), raws, READER)

    assert len(seconds) == len(raws)
    assert min(seconds) > 0
    assert sum((await model.totals()).messages) == 0


@pytest.mark.parametrize("mirrors", [0, 1, 5])
async def test_every_mirror_reads_every_change(client: Redis, readers: Redis, model: Model, mirrors: int) -> None:
    changes: list[dict[bytes, bytes]] = [{b"tokens": b"x" * 500}]
    before: Any = await client.info("commandstats")

    cost = await measuring.measure_fan_out(client, readers, "nbstream:{test}:changes:bench", changes, mirrors)

    after: Any = await client.info("commandstats")
    assert cost > 0
    assert calls(after, "xread") - calls(before, "xread") >= mirrors * (
        calls(after, "xadd") - calls(before, "xadd")
    )


def calls(stats: Any, command: str) -> int:
    return int(stats.get(f"cmdstat_{command}", {}).get("calls", 0))


async def test_without_redis_it_is_an_error_and_no_wait(own_redis: RedisServer) -> None:
    writer, readers = (open_client(ConnectionOptions(own_redis.url, timeout_seconds=2.0)) for _ in range(2))
    own_redis.stop()
    try:
        with pytest.raises(StoreUnavailable):
            await measuring.measure_fan_out(
                writer, readers, "nbstream:{test}:changes:bench", [{b"tokens": b"x"}], 3
            )
    finally:
        await writer.aclose()
        await readers.aclose()


async def test_redis_says_who_it_is_and_what_it_used(client: Redis, redis_binary: Path) -> None:
    family, _, version = (await server_name(client)).partition(" ")

    assert family in {"redis", "valkey"}
    assert version[0].isdigit()
    assert await main_thread_seconds(client) > 0


def test_a_token_takes_some_bytes_in_a_worker() -> None:
    assert 80 < measuring.worker_token_bytes(ClassCounts(), 20_000) < 400


def test_a_token_takes_fewer_bytes_in_a_native_table() -> None:
    counts = TableCounts.empty(table_functions())
    assert 40 < measuring.worker_token_bytes(counts, 20_000) < 110


async def test_the_bytes_of_a_remembered_message_are_those_of_all_that_is_stored_with_it(
    client: Redis, model: Model
) -> None:
    stored = []
    for rows, envelopes in ((False, False), (True, False), (True, True)):
        options = MemorySettings(envelope=envelopes)
        memory = RecentMessages(client, model.keys, options, lambda _: None, rows=rows)
        spam_filter = make_filter(client, observer=RememberingObserver(memory.remember))

        costs = await measuring.measure_remembering(
            spam_filter, memory, model, [message.raw for message in MAIL], READER
        )

        assert costs.redis > 0
        stored.append(costs.stored_bytes)
    assert 0 < stored[0] < stored[1] < stored[2] < stored[0] + 4000
