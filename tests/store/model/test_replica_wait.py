"""A lesson is acknowledged when as many replicas have it as are wanted, and a retry waits for them too."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from nbstream.errors import StoreRefuses
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.commit import ReplicaWaitOptions
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.model.scripts import Lesson, LessonBatch
from tests.harness.lessons import NOTE
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import Pair, replicated

ENTRY = LedgerEntry("v1", "spam", 1000, (b"body:x",), 1.5, "test", "nobody", 0.25)


@pytest.fixture
async def pair(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[Pair]:
    async with replicated(own_redis, tmp_path / "replica") as both:
        yield both


def waiting(pair: Pair, replicas: int = 1, seconds: float = 0.2) -> Model:
    return Model(pair.at_primary, "test", 3600, replica_wait=ReplicaWaitOptions(replicas, seconds))


async def test_an_acknowledged_lesson_is_at_the_replica(pair: Pair) -> None:
    model = await waiting(pair, seconds=10).open()

    for number in range(20):
        assert isinstance(await model.commit_lesson(f"m{number}", None, ENTRY, NOTE), bytes)
        assert int(await pair.at_replica.hget(model.keys.totals, "messages:spam") or 0) == number + 1


async def test_a_lesson_that_the_replica_lacks_is_refused_and_so_is_its_retry_until_the_replica_has_it(
    pair: Pair,
) -> None:
    model = await waiting(pair).open()
    pair.replica.hang()
    try:
        with pytest.raises(StoreRefuses, match=r"the lesson is stored, but 0 replicas have it"):
            await model.commit_lesson("m1", None, ENTRY, NOTE)
        assert model.last_refusal
        with pytest.raises(StoreRefuses):
            await model.commit_lesson("m1", None, ENTRY, NOTE)
        with pytest.raises(StoreRefuses):
            await model.commit_lessons(LessonBatch([Lesson("m1", None, ENTRY, NOTE)]))
        with pytest.raises(StoreRefuses):
            await model.confirm()
    finally:
        pair.replica.go_on()

    patient = await waiting(pair, seconds=10).open()
    repeated = await patient.commit_lesson("m1", None, ENTRY, NOTE)
    assert repeated == await patient.last_change()
    assert (await patient.totals()).messages == (0, 1), "counted once"
    assert await pair.at_replica.exists(patient.keys.ledger("m1"))


async def test_several_lessons_that_the_replica_lacks_are_noted_as_refused(pair: Pair) -> None:
    model = await waiting(pair).open()
    pair.replica.hang()
    try:
        with pytest.raises(StoreRefuses):
            await model.commit_lessons(LessonBatch([Lesson("m1", None, ENTRY, NOTE)]))
    finally:
        pair.replica.go_on()

    assert model.last_refusal


async def test_a_wait_on_a_new_connection_waits_for_what_others_wrote(pair: Pair) -> None:
    """WAIT alone would count the replicas that have what its own connection wrote: nothing."""
    await (await Model(pair.at_primary, "test", 3600).open()).commit_lesson("m1", None, ENTRY, NOTE)
    await pair.catch_up()
    pair.replica.hang()
    try:
        await Model(pair.at_primary, "test", 3600).commit_lesson("m2", None, ENTRY, NOTE)
        async with open_client(ConnectionOptions(pair.primary.url)) as client:
            model = Model(client, "test", 3600, replica_wait=ReplicaWaitOptions(1, 0.2))
            with pytest.raises(StoreRefuses):
                await model.confirm()
    finally:
        pair.replica.go_on()


async def test_without_wait_replicas_nothing_is_waited_for(own_redis: RedisServer) -> None:
    async with open_client(ConnectionOptions(own_redis.url)) as client:
        model = await Model(client, "test", 3600).open()
        await model.commit_lesson("m1", None, ENTRY, NOTE)
        await model.confirm()

        assert "cmdstat_wait" not in await client.info("commandstats")
