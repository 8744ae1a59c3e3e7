"""The queue of the stream door on a real Redis: one answer for each entry, whoever tried it and however often."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreRefuses, StoreUnavailable
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.keys import ModelKeys
from nbstream.store.stream_queue import CONSUMER_GROUP, ClaimOutcome, QueueBacklog, StreamQueue, StreamQueueOptions
from tests.conftest import RedisServer
from tests.waiting import until

KEYS = ModelKeys("test")
SOON = StreamQueueOptions(claim_seconds=0.001, tries=2)
ANSWER: dict[str, str | bytes] = {"verdict": "ham"}

New = Callable[..., StreamQueue]


@pytest.fixture
async def new(client: Redis, shared_redis: RedisServer) -> AsyncIterator[New]:
    """Makes a consumer of the queue."""
    blocking = open_client(ConnectionOptions(shared_redis.url), retries=0)
    yield lambda params=SOON: StreamQueue(client, blocking, KEYS, params)
    await blocking.aclose()


@pytest.fixture
async def queue(new: New) -> StreamQueue:
    queue = new()
    await queue.open()
    return queue


async def add(client: Redis, **fields: str) -> bytes:
    entry: Any = fields or {"text": "hello"}
    place: Any = await client.xadd(KEYS.incoming, entry)
    return bytes(place)


async def answers(client: Redis) -> list[dict[bytes, bytes]]:
    found: Any = await client.xrange(KEYS.outgoing)
    return [fields for _, fields in found]


async def idle(queue: StreamQueue, client: Redis) -> None:
    """Return when everything pending was left alone for longer than ``SOON`` allows."""

    async def all_are() -> bool:
        return all(each["time_since_delivered"] > 1 for each in await _pending(client))

    await until(all_are)


async def _pending(client: Redis) -> Any:
    return await client.xpending_range(KEYS.incoming, CONSUMER_GROUP, "-", "+", 100)


async def test_what_was_added_before_the_group_was_made_is_taken_too(new: New, client: Redis) -> None:
    place = await add(client, text="early", id="1")
    queue = new()
    await queue.open()
    await queue.open()

    (entry,) = await queue.take(10)

    assert (entry.stream_id, entry.fields, entry.size) == (place, {b"text": b"early", b"id": b"1"}, 12)
    assert await queue.take(10) == []


async def test_consumers_share_the_entries(new: New, queue: StreamQueue, client: Redis) -> None:
    places = [await add(client) for _ in range(10)]
    other = new()

    taken = [each.stream_id for each in [*await queue.take(4), *await other.take(4), *await queue.take(4)]]

    assert taken == places


async def test_an_answer_is_written_and_the_entry_goes(queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    await queue.take(1)

    assert await queue.answer(place, ANSWER)

    assert await answers(client) == [{b"verdict": b"ham"}]
    assert await client.xlen(KEYS.incoming) == 0
    assert await _pending(client) == []


async def test_two_that_tried_the_same_entry_write_one_answer(new: New, queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    other = new()
    await queue.take(1)
    await idle(queue, client)
    found = await other.claim()
    assert found is not None
    assert (found[0], found[1].stream_id) == (ClaimOutcome.CLAIMED, place)

    done = await asyncio.gather(*(each.answer(place, ANSWER) for each in (queue, other, queue)))

    assert sorted(done) == [False, False, True]
    assert len(await answers(client)) == 1


async def test_answers_are_trimmed(new: New, client: Redis) -> None:
    queue = new(StreamQueueOptions(max_answers=100))
    await queue.open()
    for _ in range(1000):
        await add(client)
    for entry in await queue.take(1000):
        await queue.answer(entry.stream_id, ANSWER)

    assert 100 <= await client.xlen(KEYS.outgoing) < 300


async def test_what_is_held_is_not_taken_over(new: New, queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    await queue.take(1)
    patient = new(StreamQueueOptions(claim_seconds=600))
    await client.xclaim(KEYS.incoming, CONSUMER_GROUP, queue.consumer, 0, [place], idle=700_000, justid=True)

    await queue.renew_claims([place])

    assert await patient.claim() is None
    ((pending),) = await _pending(client)
    assert pending["times_delivered"] == 1
    await queue.renew_claims([])


async def test_what_was_tried_too_often_is_set_aside_with_an_answer(queue: StreamQueue, client: Redis) -> None:
    place = await add(client, text="poison", id="p")
    await queue.take(1)
    await idle(queue, client)
    assert (await queue.claim() or (None,))[0] is ClaimOutcome.CLAIMED
    await idle(queue, client)

    assert (await queue.claim() or (None,))[0] is ClaimOutcome.DEAD

    dead: Any = await client.xrange(KEYS.dead_letters)
    assert [fields for _, fields in dead] == [
        {b"entry": place, b"tries": b"2", b"text": b"poison", b"id": b"p"},
    ]
    (answer,) = await answers(client)
    assert (answer[b"entry"], answer[b"id"]) == (place, b"p")
    assert answer[b"error"].startswith(b"set aside")
    assert await queue.claim() is None
    assert await client.xlen(KEYS.incoming) == 0


async def test_an_entry_of_thousands_of_fields_is_set_aside_too(queue: StreamQueue, client: Redis) -> None:
    await add(client, **{f"field{number}": "x" for number in range(20_000)})
    await queue.take(1)
    await idle(queue, client)
    await queue.claim()
    await idle(queue, client)

    assert (await queue.claim() or (None,))[0] is ClaimOutcome.DEAD


async def test_an_entry_that_somebody_removed_is_forgotten(queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    await queue.take(1)
    await client.xdel(KEYS.incoming, place)
    await idle(queue, client)

    assert (await queue.claim() or (None,))[0] is ClaimOutcome.LOST
    assert await queue.claim() is None


async def test_the_standing_is_what_waits_and_what_is_held(queue: StreamQueue, client: Redis) -> None:
    places = [await add(client) for _ in range(5)]
    await queue.take(2)
    assert await queue.backlog() == QueueBacklog(lag=3, pending=2)

    await queue.answer(places[0], ANSWER)

    assert await queue.backlog() == QueueBacklog(lag=3, pending=1)


async def test_a_full_redis_leaves_the_entry_pending(queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    await queue.take(1)
    await client.config_set("maxmemory", 1)
    try:
        with pytest.raises(StoreRefuses):
            await queue.answer(place, ANSWER)
    finally:
        await client.config_set("maxmemory", 0)

    assert (await queue.backlog()).pending == 1
    assert await queue.answer(place, ANSWER)


async def test_a_redis_that_lost_its_data_has_no_entry_to_answer(queue: StreamQueue, client: Redis) -> None:
    place = await add(client)
    await queue.take(1)
    await client.flushall()

    assert not await queue.answer(place, ANSWER)
    with pytest.raises(StoreUnavailable):
        await queue.take(1)
    await queue.open()
    assert await queue.take(1) == []


async def test_consumers_that_hold_nothing_are_forgotten_and_others_stay(
    new: New, queue: StreamQueue, client: Redis
) -> None:
    await add(client)
    await add(client)
    holding, gone, leaving = new(), new(), new()
    for each in (holding, gone, leaving):
        for entry in await each.take(1):
            if each is not holding:
                await each.answer(entry.stream_id, ANSWER)

    await leaving.remove_idle_consumers(leave=True)
    names = {each["name"].decode() for each in await client.xinfo_consumers(KEYS.incoming, CONSUMER_GROUP)}
    assert leaving.consumer not in names
    while gone.consumer in names:  # until it has been silent for long enough
        await queue.remove_idle_consumers()
        names = {each["name"].decode() for each in await client.xinfo_consumers(KEYS.incoming, CONSUMER_GROUP)}

    assert holding.consumer in names
