"""The stream listener when entries, workers or Redis fail: each entry still has exactly one answer."""

from __future__ import annotations

import asyncio
import random
from unittest.mock import AsyncMock

import pytest
from redis.asyncio import Redis

from nbstream.listeners.stream import queue as stream_queue
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.model import Model
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.listeners.stream.stream_worker import FAULTS, HAM, SPAM, Worker, working


async def test_nothing_fails_before_there_is_a_group(
    client: Redis, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_open, open_queue = asyncio.Event(), stream_queue.StreamQueue.open

    async def open_late(queue: stream_queue.StreamQueue) -> None:
        await may_open.wait()
        await open_queue(queue)

    monkeypatch.setattr(stream_queue.StreamQueue, "open", open_late)
    async with working(client, shared_redis.url, claim_seconds=0.1) as worker:
        sizes = [await client.xlen(worker.model.keys.incoming) for _ in range(50)]  # time for the other tasks
        assert set(sizes) == {0}
        assert worker.background.failing == []
        may_open.set()
        assert "verdict" in await worker.answer(text=HAM)
        assert worker.background.failing == []


async def test_a_fault_is_tried_again_and_then_set_aside(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, claim_seconds=1) as worker:
        worker.filter.times = 2
        healed = await worker.answer(text="poison that is cured")
        assert "verdict" in healed
        worker.filter.times = 1000

        dead = await worker.answer(text="poison", id="p")

        assert dead["error"].startswith("set aside")
        assert dead["id"] == "p"
        assert worker.filter.begun.count("poison") == 3
        assert (worker.entries("claimed"), worker.entries("dead")) == (4, 1)
        assert await client.xlen(worker.model.keys.dead_letters) == 1
        assert "verdict" in await worker.answer(text=HAM)


async def test_an_entry_that_ends_its_workers_is_set_aside_and_others_are_answered(
    client: Redis, shared_redis: RedisServer
) -> None:
    keys = Model(client, "test", 3600).keys
    async with client.pipeline() as pipe:
        for text in (*(f"lengthy {number}" for number in range(10)), "deadly"):
            pipe.xadd(keys.incoming, {"text": text})
        stream_ids = [stream_id.decode() for stream_id in await pipe.execute()]
    for _ in range(3):
        async with working(client, shared_redis.url, claim_seconds=1) as worker:
            await until(lambda: worker.death is not None and worker.death.done())

    async with working(client, shared_redis.url, claim_seconds=1) as worker:
        await worker.answered(*stream_ids)
        assert [answer["entry"] for answer in await worker.answers() if "error" in answer] == stream_ids[-1:]


async def test_any_entry_has_one_answer(worker: Worker) -> None:
    draw = random.Random(1)
    names = ["raw", "text", "id", "label", "from", "to", "lable", "", "\xff", "entry"]
    values = [
        "",
        "spam",
        "ham",
        "\0",
        "\r\n",
        "x" * 2000,
        "=?utf-8?b?4pyT?=",
        "Content-Type: multipart/x",
        "\ud7ff",
    ]
    stream_ids = []
    for _ in range(500):
        fields = {draw.choice(names): draw.choice(values) for _ in range(draw.randint(1, 5))}
        stream_ids.append((await worker.add(**fields)).decode())

    await worker.answered(*stream_ids)

    assert sorted(answer["entry"] for answer in await worker.answers()) == sorted(stream_ids)
    assert worker.entries("dead") == 0


@pytest.mark.soak
async def test_a_slow_entry_stays_claimed_by_its_worker(
    client: Redis, shared_redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        working(client, shared_redis.url, claim_seconds=1.2, max_in_flight=1) as one,
        working(client, shared_redis.url, claim_seconds=1.2, max_in_flight=1) as other,
    ):
        stream_id = (await one.add(text="slow")).decode()
        await until(lambda: bool(one.filter.begun or other.filter.begun))
        owner = one if one.filter.begun else other
        renew = AsyncMock(wraps=owner.queue.renew_claims)
        monkeypatch.setattr(owner.queue, "renew_claims", renew)
        await until(lambda: renew.await_count > 18)  # six in each claim time

        one.filter.go.set()
        other.filter.go.set()

        await one.answered(stream_id)
        assert len(one.filter.begun + other.filter.begun) == 1
        assert one.entries("claimed") + other.entries("claimed") == 0


async def test_the_entries_of_a_dead_worker_are_taken_over(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, claim_seconds=1) as dead:
        stream_ids = [(await dead.add(text=f"slow {number}")).decode() for number in range(5)]
        await until(lambda: len(dead.filter.begun) == 5)
        dead.die()
        async with working(client, shared_redis.url, claim_seconds=1) as successor:
            successor.filter.go.set()
            await successor.answered(*stream_ids)

            assert successor.entries("claimed") == 5
            assert len(await successor.answers()) == 5


async def test_draining_answers_active_entries_and_leaves_the_rest(
    client: Redis, shared_redis: RedisServer
) -> None:
    async with working(client, shared_redis.url, max_in_flight=2) as worker:
        stream_ids = [(await worker.add(text=f"slow {number}")).decode() for number in range(5)]
        await until(lambda: len(worker.filter.begun) == 2)

        draining = asyncio.create_task(worker.listener.drain(20))
        await asyncio.sleep(0)
        worker.filter.go.set()
        await draining

        assert [answer["entry"] for answer in await worker.answers()] == stream_ids[:2]
        assert await client.xlen(worker.model.keys.incoming) == 3
        assert await client.xinfo_consumers(worker.model.keys.incoming, stream_queue.CONSUMER_GROUP) == []


async def test_while_redis_refuses_to_write_nothing_is_read(client: Redis, shared_redis: RedisServer) -> None:
    async with working(client, shared_redis.url, max_in_flight=8) as worker:
        await worker.answer(text=SPAM, label="spam")
        worker.filter.times = 1
        left = (await worker.add(text="late poison")).decode()
        slow = [(await worker.add(text=f"slow {number}")).decode() for number in range(4)]
        await until(lambda: len(worker.filter.begun) == 5)
        waiting = [(await worker.add(text=f"{HAM} {number}", label="ham")).decode() for number in range(20)]
        await client.config_set("maxmemory", 1)
        try:
            worker.filter.go.set()
            await until(lambda: worker.listener._waiting == 4)
            worker.filter.late.set()
            await until(lambda: worker.metrics.registry.counts.get_sample_value(FAULTS, {"reason": "error"}) == 1)
            await asyncio.sleep(1)  # four slots are free; nothing must happen meanwhile
            assert await worker.queue.backlog() == stream_queue.QueueBacklog(lag=20, pending=5)
        finally:
            await client.config_set("maxmemory", 0)

        await worker.answered(*slow, *waiting)
        assert left not in {answer["entry"] for answer in await worker.answers()}
        assert worker.followed.totals is not None
        assert sum(worker.followed.totals.messages) == 21


async def test_a_redis_that_restarts_loses_no_entry(own_redis: RedisServer) -> None:
    durable = ("--appendonly", "yes", "--appendfsync", "always")
    own_redis.stop()
    own_redis.start(*durable)
    client = open_client(ConnectionOptions(own_redis.url))
    async with working(client, own_redis.url, claim_seconds=1) as worker:
        stream_ids: list[str] = []
        for number in range(300):
            if number == 100:
                await worker.answered(*stream_ids[:10])
                await asyncio.to_thread(own_redis.stop)
                await asyncio.to_thread(own_redis.start, *durable)
            try:
                label = "spam" if number % 2 else "ham"
                stream_ids.append((await worker.add(text=f"text {number}", label=label)).decode())
            except Exception:  # noqa: BLE001 - the producer lost its own connection, and continues
                continue

        await worker.answered(*stream_ids)
        answers = await worker.answers()
        assert len(answers) == len({answer["entry"] for answer in answers})
        assert {answer["outcome"] for answer in answers} <= {"learned", "already"}
        await until(lambda: worker.followed.is_current)
        assert sum((await worker.model.totals()).messages) == len(answers) >= 290
    await client.aclose()


async def test_a_key_of_another_type_is_logged_and_waited_for(
    client: Redis, shared_redis: RedisServer, caplog: pytest.LogCaptureFixture
) -> None:
    keys = Model(client, "test", 3600).keys
    await client.set(keys.incoming, "no stream")
    async with working(client, shared_redis.url) as worker:
        await until(lambda: "entries wait: Redis: ResponseError: WRONGTYPE" in caplog.text)
        assert len(caplog.records) < 5
        await client.delete(keys.incoming)

        assert "verdict" in await worker.answer(text=HAM)
