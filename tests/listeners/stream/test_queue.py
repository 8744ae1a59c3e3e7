"""The queue of the stream listener on a real Redis: an entry has one answer, whoever tried it and how often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreRefuses
from nbstream.listeners.stream.queue import (
    CONSUMER_GROUP,
    Claim,
    ClaimOutcome,
    QueueBacklog,
    StreamQueue,
)
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until

KEYS = ModelKeys("test")
ANSWER: dict[str, str | bytes] = {"verdict": "ham"}

NewQueue = Callable[..., StreamQueue]


@pytest.fixture
async def new_queue(client: Redis, shared_redis: RedisServer) -> AsyncIterator[NewQueue]:
    """Makes a consumer of the queue."""
    blocking_client = open_client(ConnectionOptions(shared_redis.url), retries=0)
    yield lambda seconds=0.001: StreamQueue(client, blocking_client, KEYS, claim_seconds=seconds, tries=2)
    await blocking_client.aclose()


@pytest.fixture
async def queue(new_queue: NewQueue) -> StreamQueue:
    queue = new_queue()
    await queue.open()
    return queue


async def add(client: Redis, **fields: str) -> bytes:
    entry: Any = fields or {"text": "hello"}
    stream_id: Any = await client.xadd(KEYS.incoming, entry)
    return bytes(stream_id)


async def answers(client: Redis) -> list[dict[bytes, bytes]]:
    entries: Any = await client.xrange(KEYS.outgoing)
    return [fields for _, fields in entries]


async def claim_outcome(queue: StreamQueue) -> ClaimOutcome | None:
    claim = await queue.claim()
    return claim.outcome if claim else None


async def wait_until_idle(client: Redis) -> None:
    """Return when nobody has touched any pending entry for longer than ``SOON`` allows."""

    async def all_idle() -> bool:
        return all(entry["time_since_delivered"] > 1 for entry in await pending_entries(client))

    await until(all_idle)


async def pending_entries(client: Redis) -> Any:
    return await client.xpending_range(KEYS.incoming, CONSUMER_GROUP, "-", "+", 100)


async def test_entries_older_than_the_consumer_group_are_taken_too(new_queue: NewQueue, client: Redis) -> None:
    stream_id = await add(client, text="early", id="1")
    queue = new_queue()
    await queue.open()
    await queue.open()

    (entry,) = await queue.take(10)

    assert (entry.stream_id, entry.fields, entry.size) == (stream_id, {b"text": b"early", b"id": b"1"}, 12)
    assert await queue.take(10) == []


async def test_an_answer_is_written_and_the_entry_is_deleted(queue: StreamQueue, client: Redis) -> None:
    stream_id = await add(client)
    await queue.take(1)

    assert await queue.answer(stream_id, ANSWER)

    assert await answers(client) == [{b"verdict": b"ham"}]
    assert await client.xlen(KEYS.incoming) == 0
    assert await pending_entries(client) == []


async def test_two_consumers_of_the_same_entry_write_one_answer(
    new_queue: NewQueue, queue: StreamQueue, client: Redis
) -> None:
    stream_id = await add(client)
    other = new_queue()
    await queue.take(1)
    await wait_until_idle(client)
    claim = await other.claim()
    assert isinstance(claim, Claim)
    assert (claim.outcome, claim.entry.stream_id) == (ClaimOutcome.CLAIMED, stream_id)

    written = await asyncio.gather(*(consumer.answer(stream_id, ANSWER) for consumer in (queue, other, queue)))

    assert sorted(written) == [False, False, True]
    assert len(await answers(client)) == 1


async def test_an_entry_whose_claim_is_renewed_is_not_claimed_by_others(
    new_queue: NewQueue, queue: StreamQueue, client: Redis
) -> None:
    stream_id = await add(client)
    await queue.take(1)
    patient = new_queue(600.0)
    await client.xclaim(KEYS.incoming, CONSUMER_GROUP, queue.consumer, 0, [stream_id], idle=700_000, justid=True)

    await queue.renew_claims([stream_id])

    assert await patient.claim() is None
    ((pending),) = await pending_entries(client)
    assert pending["times_delivered"] == 1
    await queue.renew_claims([])


async def test_an_entry_tried_too_often_is_a_dead_letter_and_gets_an_answer(
    queue: StreamQueue, client: Redis
) -> None:
    stream_id = await add(client, text="poison", id="p")
    await queue.take(1)
    await wait_until_idle(client)
    assert await claim_outcome(queue) is ClaimOutcome.CLAIMED
    await wait_until_idle(client)

    assert await claim_outcome(queue) is ClaimOutcome.DEAD

    dead: Any = await client.xrange(KEYS.dead_letters)
    assert [fields for _, fields in dead] == [
        {b"entry": stream_id, b"tries": b"2", b"text": b"poison", b"id": b"p"},
    ]
    (answer,) = await answers(client)
    assert (answer[b"entry"], answer[b"id"]) == (stream_id, b"p")
    assert answer[b"error"].startswith(b"set aside")
    assert await queue.claim() is None
    assert await client.xlen(KEYS.incoming) == 0


async def test_the_backlog_is_what_waits_and_what_is_pending(queue: StreamQueue, client: Redis) -> None:
    stream_ids = [await add(client) for _ in range(5)]
    await queue.take(2)
    assert await queue.backlog() == QueueBacklog(lag=3, pending=2)

    await queue.answer(stream_ids[0], ANSWER)

    assert await queue.backlog() == QueueBacklog(lag=3, pending=1)


async def test_a_full_redis_leaves_the_entry_pending(queue: StreamQueue, client: Redis) -> None:
    stream_id = await add(client)
    await queue.take(1)
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreRefuses):
            await queue.answer(stream_id, ANSWER)
    finally:
        await client.config_set("maxmemory", 0)

    assert (await queue.backlog()).pending == 1
    assert await queue.answer(stream_id, ANSWER)


async def test_silent_consumers_without_entries_are_removed_and_others_stay(
    new_queue: NewQueue, queue: StreamQueue, client: Redis
) -> None:
    await add(client)
    await add(client)
    holding, silent, leaving = new_queue(), new_queue(), new_queue()
    for consumer in (holding, silent, leaving):
        for entry in await consumer.take(1):
            if consumer is not holding:
                await consumer.answer(entry.stream_id, ANSWER)

    await leaving.remove_idle_consumers(leave=True)
    assert leaving.consumer not in await consumer_names(client)
    while silent.consumer in await consumer_names(client):  # until it has been silent for long enough
        await queue.remove_idle_consumers()

    assert holding.consumer in await consumer_names(client)


async def consumer_names(client: Redis) -> set[str]:
    consumers: Any = await client.xinfo_consumers(KEYS.incoming, CONSUMER_GROUP)
    return {consumer["name"].decode() for consumer in consumers}
