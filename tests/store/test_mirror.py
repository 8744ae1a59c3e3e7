"""The mirror ends equal to Redis, whatever happens while it loads and follows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.store.connect import open_socket
from nbstream.store.mirror import Mirror
from nbstream.store.model import Model
from tests.conftest import RedisServer
from tests.store.test_model import TOKENS, change, entry
from tests.waiting import DEADLINE_SECONDS, until


@asynccontextmanager
async def running(mirror: Mirror) -> AsyncIterator[Mirror]:
    task = asyncio.create_task(mirror.run())
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await mirror.loaded.wait()
        yield mirror
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def equals_redis(mirror: Mirror, model: Model, tokens: list[bytes]) -> bool:
    ours, our_totals = await mirror.look_up(tokens)
    theirs, their_totals = await model.look_up(tokens)
    return bool((ours == theirs).all()) and our_totals == their_totals


@pytest.fixture
def model(client: Redis) -> Model:
    return Model(client, "test", 3600)


async def test_before_the_first_load_there_are_no_counts(model: Model) -> None:
    with pytest.raises(StoreUnavailable):
        await Mirror(model).look_up(TOKENS)


async def test_a_mirror_loads_what_is_there_and_follows_what_comes(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:4]))

    async with running(Mirror(model)) as mirror:
        assert await equals_redis(mirror, model, TOKENS)
        sequence = await change(model, "m1", entry("ham", TOKENS[2:], weight=5))
        assert sequence is not None
        await mirror.applied(sequence)

        assert await equals_redis(mirror, model, TOKENS)
        assert mirror.lag_seconds == 0


async def test_a_learn_with_weight_zero_still_counts_the_message(model: Model) -> None:
    async with running(Mirror(model)) as mirror:
        sequence = await change(model, "m1", entry("spam", TOKENS, weight=0))
        assert sequence is not None
        await mirror.applied(sequence)

        assert mirror.totals is not None
        assert (mirror.totals.messages, mirror.totals.vocabulary) == ((0, 1), 0)


async def test_a_mirror_that_loads_under_writers_ends_equal(model: Model) -> None:
    tokens = [b"w%d" % n for n in range(3000)]
    await change(model, "first", entry("spam", tokens))
    stop = asyncio.Event()

    async def write(number: int) -> int:
        last, step = 0, 0
        while not stop.is_set():
            step += 1
            start = (number * 700 + step * 13) % 2500
            label = "spam" if step % 3 else "ham"
            last = await change(model, f"{number}-{step % 20}", entry(label, tokens[start : start + 300])) or last
        return last

    writers = [asyncio.create_task(write(number)) for number in range(3)]
    async with running(Mirror(model)) as mirror, running(Mirror(model)) as late:
        stop.set()
        last = max(await asyncio.gather(*writers))
        await asyncio.gather(mirror.applied(last), late.applied(last))

        assert await equals_redis(mirror, model, tokens)
        assert await equals_redis(late, model, tokens)


async def test_a_mirror_whose_place_was_trimmed_away_scans_again(model: Model) -> None:
    async with running(Mirror(model)) as mirror:
        await change(model, "m1", entry("spam", TOKENS))
        # Two changes, the first gone before anyone read it: what a mirror sees that was away for long.
        async with model.client.pipeline(transaction=True) as pipe:
            pipe.incr(model.keys.sequence)
            pipe.hset(model.keys.counts[0], TOKENS[0], "77")
            await pipe.execute()
        sequence = await change(model, "m2", entry("ham", TOKENS[:1]))
        assert sequence is not None
        await mirror.applied(sequence)

        assert await equals_redis(mirror, model, TOKENS)


async def test_a_server_that_lost_everything_is_scanned_again(model: Model) -> None:
    async with running(Mirror(model)) as mirror:
        await change(model, "m1", entry("spam", TOKENS))
        await model.client.flushall()

        await until(lambda: equals_redis(mirror, model, TOKENS))


async def test_while_redis_is_away_the_old_counts_serve_and_then_it_follows_again(own_redis: RedisServer) -> None:
    model = Model(open_socket(own_redis.socket, 1.0), "test", 3600)
    async with running(Mirror(model)) as mirror:
        await mirror.applied(await change(model, "m1", entry("spam", TOKENS)) or 0)
        own_redis.stop()
        await until(lambda: not mirror.following)

        assert (await mirror.look_up(TOKENS))[0][:, 1].tolist() == [1000] * len(TOKENS)
        assert mirror.lag_seconds > 0
        assert mirror.problem

        own_redis.start()  # empty: it kept nothing
        await until(lambda: mirror.following)
        await mirror.applied(await change(model, "m2", entry("ham", TOKENS)) or 0)
        assert await equals_redis(mirror, model, TOKENS)
    await model.client.aclose()


async def test_a_cut_connection_loses_no_change(model: Model) -> None:
    async with running(Mirror(model)) as mirror:
        last = 0
        for number in range(60):
            if number % 7 == 0:
                await model.client.client_kill_filter(_type="normal", skipme=True)
            last = await change(model, f"m{number}", entry("spam", TOKENS[number % 8 :])) or last
        await until(lambda: mirror.sequence >= last)

        assert await equals_redis(mirror, model, TOKENS)
