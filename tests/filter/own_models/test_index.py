"""The index of own models, and how they are removed."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.filter.own_models import index
from nbstream.filter.own_models.index import OwnModelIndex, index_key, unlist_model
from nbstream.store.model.scan import scan_keys
from nbstream.store.transfer.model_import import ModelImport
from tests.filter.own_models.test_filters import letter, news, teach_common
from tests.harness.own_model_site import ANN, BOB, Site, open_site, own_model
from tests.harness.waiting import until


async def until_dropped(site: Site) -> None:
    await until(lambda: site.models.find("example.org/ann") is None)


async def test_a_removed_model_leaves_every_process(client: Redis) -> None:
    async with open_site(client) as site, open_site(client) as other:
        await teach_common(site)
        before = await (await other.filter_of(ANN)).check(news(99))
        teacher = await site.filters.for_user(ANN)
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
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
        models = OwnModelIndex(client, "test")
        await models.remove(["example.org/ann"])
        await until_dropped(site)

        await (await site.filters.for_user(ANN)).learn(letter(1), "spam", "test")

        listed = await models.find("example.org/ann")
        assert listed is not None
        assert sum(listed.totals.messages) == 1


async def test_what_a_model_takes_in_redis_counts_its_kinds(client: Redis) -> None:
    async with open_site(client) as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
    models, keys = OwnModelIndex(client, "test"), own_model(client, "example.org/ann").keys
    before = await models.find("example.org/ann")

    await client.hset(keys.totals, mapping={"messages:newsletter": 0, "tokens:newsletter": 10})
    await client.hset(keys.counts("newsletter"), mapping={f"body:{number}": 1 for number in range(10)})

    after = await models.find("example.org/ann")
    assert before is not None
    assert after is not None
    assert after.bytes_stored == before.bytes_stored + 10 * index._TOKEN_BYTES


async def test_models_that_nobody_uses_are_removed_and_no_others(client: Redis) -> None:
    async with open_site(client) as site:
        for address in (ANN, BOB):
            await (await site.filters.for_user(address)).learn(news(1), "ham", "test")
    models, now = OwnModelIndex(client, "test"), time.time()
    await client.zadd(index_key("test"), {"example.org/ann": now - 2 * 86_400})
    bobs = own_model(client, "example.org/bob").keys.pattern
    before = {key: await client.dump(key) async for key in client.scan_iter(bobs)}

    await models.remove_unused(1)

    assert [model.name async for model in models.models()] == ["example.org/bob"]
    assert {key: await client.dump(key) async for key in client.scan_iter(bobs)} == before


async def test_a_lesson_amid_a_removal_is_refused_and_leaves_no_count_without_its_entry(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_site(client) as site:
        teacher = await site.filters.for_user(ANN)
        await teacher.learn(news(1), "ham", "test")
        answers: list[type[Exception]] = []

        async def scan_and_learn(*arguments: Any) -> AsyncIterator[list[bytes]]:
            async for keys in scan_keys(*arguments):
                yield keys
                try:  # the keys of the first lesson are gone by now
                    await teacher.learn(news(2), "ham", "test")
                except StoreUnavailable as error:
                    answers.append(type(error))

        monkeypatch.setattr(index, "scan_keys", scan_and_learn)
        await OwnModelIndex(client, "test").remove(["example.org/ann"])

        assert answers
        keys = own_model(client, "example.org/ann").keys
        assert [key async for key in client.scan_iter(keys.pattern)] == []
        await until_dropped(site)
        await (await site.filters.for_user(ANN)).learn(news(2), "ham", "test")
        assert (await own_model(client, "example.org/ann").totals()).messages == (1, 0)


async def test_a_removal_that_was_killed_at_its_end_refuses_lessons_for_a_minute_at_most(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model is not listed any more then, and nobody would repeat that."""

    async def unlist_and_break(*arguments: Any) -> None:
        await unlist_model(*arguments)
        raise StoreUnavailable("killed")

    async with open_site(client) as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
    monkeypatch.setattr(index, "unlist_model", unlist_and_break)

    with pytest.raises(StoreUnavailable):
        await OwnModelIndex(client, "test").remove(["example.org/ann"])

    assert 0 < await client.ttl(own_model(client, "example.org/ann").keys.importing) <= 60


async def test_a_removal_that_was_interrupted_lets_no_lesson_in_until_it_is_repeated(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scan_and_break(*arguments: Any) -> AsyncIterator[list[bytes]]:
        async for keys in scan_keys(*arguments):
            yield keys[:3]
            raise StoreUnavailable("interrupted")

    async with open_site(client) as site:
        teacher = await site.filters.for_user(ANN)
        await teacher.learn(news(1), "ham", "test")
        with monkeypatch.context() as patch:
            patch.setattr(index, "scan_keys", scan_and_break)
            with pytest.raises(StoreUnavailable):
                await OwnModelIndex(client, "test").remove(["example.org/ann"])
        with pytest.raises(StoreUnavailable):
            await teacher.learn(news(2), "ham", "test")

        await OwnModelIndex(client, "test").remove(["example.org/ann"])

        await until_dropped(site)
        await (await site.filters.for_user(ANN)).learn(news(2), "ham", "test")
        assert (await own_model(client, "example.org/ann").totals()).messages == (1, 0)


async def test_an_import_that_begins_amid_a_removal_ends_it(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = ModelImport(own_model(client, "example.org/ann"))

    async def scan_and_import(*arguments: Any) -> AsyncIterator[list[bytes]]:
        async for keys in scan_keys(*arguments):
            await client.unlink(*keys)
            await running.begin()
            yield keys

    async with open_site(client) as site:
        await (await site.filters.for_user(ANN)).learn(news(1), "ham", "test")
    monkeypatch.setattr(index, "scan_keys", scan_and_import)

    with pytest.raises(StoreUnavailable, match="an import into it"):
        await OwnModelIndex(client, "test").remove(["example.org/ann"])

    await running.write([])
