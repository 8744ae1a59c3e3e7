"""``nbstream.web.users.preferences`` in a real Redis."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.store.model.keys import ModelKeys
from nbstream.web.users.preferences import UserPreferences
from tests.harness.redis.redis_server import RedisServer

ANN, BOB = "ann@example.org", "bob@example.org"


@pytest.fixture
def preferences(client: Redis) -> UserPreferences:
    return UserPreferences(client, ModelKeys("m"))


async def test_the_digest_is_on_until_it_is_switched_off(preferences: UserPreferences) -> None:
    assert await preferences.wants_digest(ANN)
    for _ in range(2):
        await preferences.set_digest(ANN, wanted=False)
        assert not await preferences.wants_digest(ANN)
    assert await preferences.wants_digest(BOB)
    await preferences.set_digest(ANN, wanted=True)
    assert await preferences.wants_digest(ANN)


async def test_nothing_is_left_of_a_user_who_is_forgotten(preferences: UserPreferences, client: Redis) -> None:
    await preferences.set_digest(ANN, wanted=False)
    await preferences.forget(ANN)
    assert await client.keys("*") == []


async def test_without_redis_nobody_knows(own_redis: RedisServer) -> None:
    async with Redis.from_url(own_redis.url) as client:
        preferences = UserPreferences(client, ModelKeys("m"))
        own_redis.stop()
        with pytest.raises(StoreUnavailable):
            await preferences.wants_digest(ANN)
        with pytest.raises(StoreUnavailable):
            await preferences.want_digest([ANN])
