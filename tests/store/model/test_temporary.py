"""A temporary model leaves nothing behind, and touches nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model, temporary_model, temporary_name
from tests.harness.lessons import NOTE
from tests.harness.redis.redis_server import RedisServer


async def learn(model: Model, message: str) -> None:
    await model.commit_lesson(
        message, None, LedgerEntry("v", "spam", 1000, (b"a", b"b"), 1.5, "test", "nobody", 0.25), NOTE
    )


async def keys(client: Redis) -> list[bytes]:
    names: Any = await client.keys("*")
    return sorted(names)


async def test_all_its_keys_are_removed_and_those_of_others_are_not(client: Redis) -> None:
    other = Model(client, "evaluate", 3600)
    await other.open()
    await learn(other, "m1")
    before = await keys(client)

    async with temporary_model(client, temporary_name("evaluate"), 3600) as model:
        for number in range(50):
            await learn(model, f"m{number}")
        assert len(await keys(client)) > len(before) + 50

    assert await keys(client) == before


async def test_an_error_names_the_keys_that_may_be_left(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=1))

    with pytest.raises(
        StoreUnavailable, match=r"the keys nbstream:\{evaluate-[0-9a-f]{16}\}:\* may be left there"
    ):
        async with temporary_model(client, temporary_name("evaluate"), 3600):
            own_redis.stop()

    await client.aclose()
