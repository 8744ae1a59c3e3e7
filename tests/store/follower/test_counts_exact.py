"""A follower ends equal to Redis in every count, whenever it starts and whatever it misses."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from tests.harness.algebra import equals_redis_exactly
from tests.harness.followers import running
from tests.harness.lessons import TOKENS, change, entry
from tests.harness.redis.proxy import Fate, Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import replicated
from tests.harness.waiting import until
from tests.store.writers import LETTERS, filter_of, has_changed, other_process, random_plans, wait_until_written


@asynccontextmanager
async def counts_at(url: str) -> AsyncIterator[FollowedCounts]:
    """A follower behind a client of its own, as in a daemon."""
    client = open_client(ConnectionOptions(url), retries=0)
    async with running(FollowedCounts(Model(client, "test", 3600))) as followed:
        yield followed
    await client.aclose()


async def cut_repeatedly(proxy: Proxy, generator: random.Random) -> None:
    """Cut the connection after a random number of bytes of replies, mostly within a reply, again and again."""
    while True:
        proxy.reply_bytes = generator.randrange(300_000)
        await until(lambda: proxy.reply_bytes is None, LONG_SECONDS)


LONG_SECONDS = 200.0
LONG = pytest.param(20_000, id="long", marks=pytest.mark.soak)


@pytest.mark.parametrize("lessons", [pytest.param(200, id="short"), LONG])
async def test_followers_started_at_any_moment_and_one_that_is_cut_end_equal_under_4_writers(
    client: Redis, shared_redis: RedisServer, tmp_path: Path, lessons: int
) -> None:
    generator, model = random.Random(lessons), Model(client, "test", 3600)
    await client.hset(
        model.keys.counts("ham"), mapping={f"body:filler{n}": n + 1 for n in range(20_000)}
    )  # 10 steps
    plans = random_plans(seed=1, writers=4, messages=len(LETTERS), steps=lessons // 4)

    async with (
        other_process(shared_redis.url, plans) as process,
        Proxy(shared_redis.socket, tmp_path / "s") as proxy,
        AsyncExitStack() as stack,
    ):
        followers = [await stack.enter_async_context(counts_at(proxy.url))]
        cutting = asyncio.create_task(cut_repeatedly(proxy, generator))
        for moment in sorted(generator.choices(range(lessons // 2), k=4)):
            await until(partial(has_changed, model, moment), LONG_SECONDS)
            followers.append(await stack.enter_async_context(counts_at(shared_redis.url)))
        await wait_until_written(process, LONG_SECONDS)
        cutting.cancel()
        proxy.reply_bytes = None
        assert proxy.broken > 0

        for followed in followers:
            await until(partial(equals_redis_exactly, followed, model))


async def test_a_follower_whose_position_was_trimmed_away_serves_the_old_counts_until_it_has_scanned_again(
    client: Redis, shared_redis: RedisServer, tmp_path: Path
) -> None:
    model, proxy_open, scan_started, scan_allowed = (
        Model(client, "test", 3600),
        *(asyncio.Event() for _ in range(3)),
    )

    async def hold_back(request: bytes) -> Fate:
        await proxy_open.wait()
        if b"HSCAN" in request:
            scan_started.set()
            await scan_allowed.wait()
        return Fate.PASS

    proxy_open.set()
    scan_allowed.set()
    async with Proxy(shared_redis.socket, tmp_path / "s", hold_back) as proxy, counts_at(proxy.url) as followed:
        await followed.wait_until_applied(await change(model, "m1", entry("spam", TOKENS[:1])) or b"")
        proxy_open.clear()
        scan_allowed.clear()
        scan_started.clear()
        for number in range(2, 8):
            await change(model, f"m{number}", entry("spam", TOKENS[:number]))
        await client.xtrim(model.keys.changes, maxlen=1, approximate=False)
        proxy_open.set()
        await asyncio.wait_for(scan_started.wait(), 20)

        assert not followed.is_current
        assert followed.totals is not None
        assert followed.totals.messages in {(0, 1), (0, 2)}  # the second one may answer an earlier read
        assert (await followed.look_up(TOKENS[:1]))[0].tolist() == [[0, 1000 * followed.totals.messages[1]]]

        scan_allowed.set()
        await followed.wait_until_applied(await model.last_change())
        assert await equals_redis_exactly(followed, model)


async def test_after_a_failover_that_lost_changes_a_follower_scans_again(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with (
        replicated(own_redis, tmp_path / "replica") as pair,
        Proxy(own_redis.socket, tmp_path / "s") as proxy,
        counts_at(proxy.url) as followed,
    ):
        before, after = (Model(client, "test", 3600) for client in (pair.at_primary, pair.at_replica))
        for number in range(5):
            await filter_of(pair.at_primary).learn(LETTERS[number], "spam", "test")
        await until(lambda: has_changed(after, 5))
        await pair.promote()
        for number in range(5, 10):
            await filter_of(pair.at_primary).learn(LETTERS[number], "spam", "test")
        await followed.wait_until_applied(await before.last_change())  # it knows what will be lost

        for number in range(20, 28):
            await filter_of(pair.at_replica).learn(LETTERS[number], "ham", "test")
        own_redis.stop()
        proxy.target = pair.replica.socket
        proxy.cut()

        await until(lambda: equals_redis_exactly(followed, after))
