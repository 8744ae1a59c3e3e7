"""The index of own models, and how they are removed."""

from __future__ import annotations

import time

from redis.asyncio import Redis

from nbstream.filter.own_models.index import OwnModelIndex
from nbstream.filter.own_models.listing import index_key
from tests.filter.own_models.site import ANN, BOB, Site, open_site, own_model
from tests.filter.own_models.test_filters import letter, news, teach_common
from tests.waiting import until


async def until_dropped(site: Site) -> None:
    await until(lambda: site.models.find("example.org/ann") is None)


async def test_a_removed_model_leaves_every_process(client: Redis) -> None:
    async with open_site(client) as site, open_site(client) as other:
        await teach_common(site)
        before = await (await other.filter_of(ANN)).check(news(99))
        teacher = await site.filters.for_teacher(ANN)
        for number in range(10, 13):
            await teacher.learn(news(number), "ham", "test")
        assert (await (await other.filter_of(BOB)).check(news(99))).score == before.score

        await OwnModelIndex(client, "test").remove(["example.org/ann"])

        for process in (site, other):
            await until_dropped(process)
            assert (await (await process.filter_of(ANN)).check(news(99))).score == before.score
        keys = own_model(client, "example.org/ann").keys
        assert [key async for key in client.scan_iter(keys.pattern)] == []
        assert await client.xlen(keys.changes) == 1


async def test_a_removed_model_can_be_taught_again_at_once(client: Redis) -> None:
    async with open_site(client) as site:
        await (await site.filters.for_teacher(ANN)).learn(news(1), "ham", "test")
        index = OwnModelIndex(client, "test")
        await index.remove(["example.org/ann"])
        await until_dropped(site)

        await (await site.filters.for_teacher(ANN)).learn(letter(1), "spam", "test")

        listed = await index.find("example.org/ann")
        assert listed is not None
        assert sum(listed.totals.messages) == 1


async def test_models_that_nobody_uses_are_removed_and_no_others(client: Redis) -> None:
    async with open_site(client) as site:
        for address in (ANN, BOB):
            await (await site.filters.for_teacher(address)).learn(news(1), "ham", "test")
    index, now = OwnModelIndex(client, "test"), time.time()
    await client.zadd(index_key("test"), {"example.org/ann": now - 100})
    bobs = own_model(client, "example.org/bob").keys.pattern
    before = {key: await client.dump(key) async for key in client.scan_iter(bobs)}

    assert await index.remove_idle(now - 50) == 1

    assert [model.name async for model in index.models()] == ["example.org/bob"]
    assert {key: await client.dump(key) async for key in client.scan_iter(bobs)} == before
