"""Own models in the memory of a process."""

from __future__ import annotations

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible
from nbstream.filter import OwnModelUse
from nbstream.own_models.store import OwnModelKeys, index_key
from tests.own_models.site import ANN, open_site, own_model
from tests.own_models.test_filters import news
from tests.waiting import until


def test_all_keys_of_an_own_model_share_a_hash_tag() -> None:
    keys = OwnModelKeys("test", "example.org/ann")
    names = [*keys.counts, keys.totals, keys.changes, keys.history, keys.schema, keys.ledger("abc")]

    tags = {name[name.index("{") : name.index("}")] for name in names}

    assert len(tags) == 1
    assert all(":example.org/ann:" in name for name in names)


async def test_only_what_was_taught_is_in_redis_and_in_the_index(client: Redis) -> None:
    async with open_site(client) as site:
        await site.filter_of(ANN)
        assert await client.keys("*example.org*") == []

        await (await site.filters.for_teacher(ANN)).learn(news(1), "ham", "test")

        assert await client.zrange(index_key("test"), 0, -1) == [b"example.org/ann"]


async def test_the_models_that_were_used_least_recently_make_room(client: Redis) -> None:
    async with open_site(client, "{address}", max_bytes=100_000) as site:
        for number in range(10):
            await site.filter_of(f"user{number}@example.org")

        assert 1 <= site.models.cached < 10
        assert site.models.bytes_used <= 100_000
        assert site.models.find("user9@example.org")
        assert site.models.find("user0@example.org") is None


async def test_a_model_that_was_removed_is_loaded_anew(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        await (await site.filters.for_teacher(ANN)).learn(news(1), "ham", "test")
        keys = own_model(client, ANN).keys
        await client.delete(*[key async for key in client.scan_iter(keys.pattern)])

        await client.xadd(keys.changes, {"sequence": 0})

        await until(lambda: site.models.find(ANN) is None)
        own = await site.models.load(ANN)
        assert not any(own.totals.messages)


async def test_a_model_is_loaded_once_for_all_who_wait(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        await site.filters.for_recipients([ANN, ANN])
        await site.filter_of(ANN)
        assert site.models.loads == 1


async def test_counts_of_another_program_leave_the_common_verdict(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        await client.hset(OwnModelKeys("test", ANN).schema, mapping={"schema": "999", "tokenizer": "1"})

        check = await (await site.filter_of(ANN)).check(news(1))

        assert check.own is OwnModelUse.UNAVAILABLE
        with pytest.raises(StoreIncompatible, match="was learned with schema 999"):
            await site.models.load(ANN)
