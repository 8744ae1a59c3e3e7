"""``nbstream.store.logins``, in a real Redis."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.logins import COUNTED_SECONDS, AttemptCounts
from nbstream.store.model.keys import ModelKeys
from tests.harness.redis.redis_server import RedisServer

KEYS = ModelKeys("m")


async def test_attempts_are_counted_by_source_and_forgotten_a_minute_after_the_first(client: Redis) -> None:
    counts = AttemptCounts(client, KEYS)
    assert [each.count for each in await counts.add(["a", "b"])] == [1, 1]
    (first,) = await counts.add(["a"])
    await client.pexpire(KEYS.login_attempts("a"), 5000)
    (later,) = await counts.add(["a"])

    assert (first.count, later.count) == (2, 3)
    assert 0 < later.seconds <= 5 < first.seconds <= COUNTED_SECONDS
    assert [await client.pttl(key) > 0 for key in await client.keys("*")] == [True, True]


async def test_without_redis_nothing_is_counted(own_redis: RedisServer) -> None:
    async with open_client(ConnectionOptions(own_redis.url, timeout_seconds=1)) as client:
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await AttemptCounts(client, KEYS).add(["a"])
