"""Own models in a process's memory."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.filter import OwnModelUse
from nbstream.filter.own_models.index import (
    ListedModels,
    OwnModelIndex,
    OwnModelKeys,
    changes_key,
    index_key,
    list_model,
)
from nbstream.policy.own_models.names import bucket_of
from nbstream.store.connection import ConnectionOptions, open_client
from tests.filter.own_models.test_filters import letter, news
from tests.harness.own_model_site import ANN, BOB, Site, open_site, own_model
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until


def test_all_keys_of_an_own_model_share_a_hash_tag() -> None:
    keys = OwnModelKeys("test", "example.org/ann")
    names = [keys.counts("ham"), keys.totals, keys.history, keys.schema, keys.ledger("abc")]

    tags = {name[name.index("{") : name.index("}")] for name in [*names, keys.changes, keys.sequence]}

    assert len(tags) == 1
    assert all(":example.org/ann:" in name for name in names)


async def test_only_what_was_taught_is_in_redis_and_in_the_index(client: Redis) -> None:
    async with open_site(client) as site:
        await site.filter_of(ANN)
        assert await client.keys("*example.org*") == []

        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")

        assert await client.zrange(index_key("test"), 0, -1) == [b"example.org/ann"]


async def test_the_models_that_were_used_least_recently_make_room(client: Redis) -> None:
    async with open_site(client, "{address}", max_bytes=100_000) as site:
        for number in range(10):
            await site.models.load(f"user{number}@example.org")

        assert 1 <= site.models.cached < 10
        assert site.models.bytes_used <= 100_000
        assert site.models.find("user9@example.org")
        assert site.models.find("user0@example.org") is None


async def test_a_change_that_cannot_be_read_ends_no_follower(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        own = await site.filters.for_user(ANN)
        await own.learn(news(1), "ham", "test")

        await client.xadd(own_model(client, ANN).keys.changes, {"sequence": "no number"})

        await until(lambda: site.models.find(ANN) is None)
        await (await site.filters.for_user(ANN)).learn(news(2), "ham", "test")
        counts = site.models.find(ANN)
        assert counts
        assert counts.totals
        assert counts.totals.messages == (2, 0)


async def test_counts_of_another_program_leave_the_common_verdict(
    client: Redis, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_site(client, "{address}") as site:
        await client.hset(OwnModelKeys("test", ANN).schema, mapping={"format": "999"})

        check = await (await site.filter_of(ANN)).check(news(1))

        assert check.own is OwnModelUse.UNAVAILABLE
        assert [record.levelname for record in caplog.records if ANN in record.getMessage()] == ["WARNING"]
        with pytest.raises(StoreIncompatible, match="has format 999"):
            await site.models.load(ANN)


async def test_a_model_that_made_room_is_signed_again_by_the_next_lesson(client: Redis) -> None:
    async with open_site(client, "{address}", max_bytes=1) as site:
        await site.models.load_for_lesson(ANN)
        await site.models.load(BOB)
        keys = own_model(client, ANN).keys
        await client.delete(*[key async for key in client.scan_iter(keys.pattern)], index_key("test"))

        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")

        assert await client.exists(keys.schema)
        assert await client.zrange(index_key("test"), 0, -1) == [ANN.encode()]


async def test_former_counts_serve_while_redis_is_away_and_are_loaded_anew_afterwards(
    own_redis: RedisServer,
) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    async with open_site(client, "{address}") as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
        before = site.models.find(ANN)
        assert before

        await asyncio.to_thread(own_redis.stop)
        await until(lambda: site.models.find(ANN) is None)

        (own,) = await site.filters.for_recipients([ANN])
        assert own.parts.counts is before
        with pytest.raises(StoreUnavailable):
            await site.filters.for_user(ANN)

        async def is_loaded_anew() -> bool:
            return (await site.filter_of(ANN)).parts.counts is not before

        await asyncio.to_thread(own_redis.start)
        await until(is_loaded_anew)
    await client.aclose()


async def test_a_reply_that_cannot_be_read_leaves_the_common_verdict(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
        site.models.drop(ANN)
        await client.hset(own_model(client, ANN).keys.totals, "messages:ham", "many")

        (own,) = await site.filters.for_recipients([ANN])

        assert (await own.check(news(2))).own is OwnModelUse.UNAVAILABLE
        with pytest.raises(StoreUnavailable, match="cannot be read"):
            await site.models.load(ANN)


async def test_models_are_followed_while_redis_refuses_to_write(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url))
    async with open_site(client, "{address}") as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
        counts = await site.models.load(ANN)
        await client.config_set("maxmemory", 1)
        counts.noted_at = -10_000.0

        await until(lambda: counts.noted_at > 0)

        assert site.models.find(ANN) is counts
    await client.aclose()


async def test_lessons_of_two_processes_at_the_same_moment_all_count_in_both(client: Redis) -> None:
    async with open_site(client, "{address}") as one, open_site(client, "{address}") as other:
        teachers = [await site.filters.for_user(ANN) for site in (one, other)]

        await asyncio.gather(*(teachers[n % 2].learn(news(n % 15), "ham", "test") for n in range(30)))

        stored = await own_model(client, ANN).totals()
        assert stored.messages == (15, 0)
        for site in (one, other):
            counts = await site.models.load(ANN)
            await counts.wait_until_applied((await own_model(client, ANN).position()).change.stream_id)
            assert counts.totals == stored


async def test_a_lesson_is_applied_behind_those_of_other_models_of_its_bucket(client: Redis) -> None:
    names = [f"{number**2}@example.org" for number in range(100)]
    one, other = [name for name in names if bucket_of(name) == bucket_of(names[0])][:2]
    async with open_site(client, "{address}") as site:
        await until(lambda: all(part.is_current for part in (site.models.listed, *site.models.buckets)))
        for number in range(3):
            for name in (one, other):
                await (await site.filters.for_user(name)).learn(news(number), "ham", "test")

        await (await site.filters.for_user(one)).learn(letter(1), "spam", "test")
        loads = site.models.loads

        for name, messages in ((one, (3, 1)), (other, (3, 0))):
            counts = await site.models.load(name)
            stored = await own_model(client, name).totals()
            assert (counts.totals, stored.messages) == (stored, messages)
        assert site.models.loads == loads == 2


async def until_listed(site: Site, name: str = ANN) -> None:
    """Until the process has a copy of the index, and the model is in it."""
    site.models.untaught("")
    await until(lambda: site.models.untaught("") is not None and site.models.untaught(name) is None)


async def test_a_model_that_another_process_teaches_is_loaded_from_then_on(client: Redis) -> None:
    async with open_site(client, "{address}") as site, open_site(client, "{address}") as other:
        await (await site.filters.for_user(BOB)).learn(news(1), "ham", "test")
        await until_listed(site, BOB)
        assert site.models.untaught(ANN)

        await (await other.filters.for_user(ANN)).learn(news(1), "ham", "test")

        await until(lambda: site.models.untaught(ANN) is None)
        check = await (await site.filter_of(ANN)).check(news(2))
        assert check.own is OwnModelUse.USED


async def test_a_model_that_was_removed_has_nothing_to_load_and_its_name_is_in_no_stream(client: Redis) -> None:
    async with open_site(client, "{address}") as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
        await until_listed(site)

        await OwnModelIndex(client, "test").remove([ANN])

        await until(lambda: site.models.untaught(ANN) is not None)
        assert await client.xlen(changes_key(index_key("test"))) == 1


async def test_changes_of_the_index_that_are_gone_lose_no_model(client: Redis) -> None:
    async def take_over() -> None:
        entries: Any = await client.xrange(copy.stream)
        await copy.apply(entries)

    copy = ListedModels(client, index_key("test"))
    await copy.load()
    for number in range(3):
        await list_model(client, index_key("test"), f"user{number}")
    await take_over()
    await list_model(client, index_key("test"), "user3")
    await client.xtrim(copy.stream, maxlen=0)
    await list_model(client, index_key("test"), "user4")

    await take_over()

    assert [copy.may_have(f"user{number}") for number in range(6)] == [*[True] * 5, False]
