"""The fair sample of a model: written once for all that share the model, and read with the first scores."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible, StoreRefuses
from nbstream.policy.fair_sample import NO_SAMPLE
from nbstream.policy.first_scores import FirstScore
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.model.sample import read_sample, write_share
from tests.conftest import RedisServer
from tests.store.mirror.mirrors import running
from tests.store.notes import NOTE

KEYS = ModelKeys("test")


def model_with(client: Redis, share: float | None) -> Model:
    return Model(client, "test", 3600, sample_share=share)


async def test_all_who_open_a_model_at_once_get_the_same_sample(client: Redis) -> None:
    samples = await asyncio.gather(*(write_share(client, KEYS, 0.1, 5.0) for _ in range(10)))

    assert set(samples) == {await read_sample(client, KEYS)}
    assert samples[0].shares == ((5.0, 0.1),)
    assert len(samples[0].key) >= 32


async def test_another_share_keeps_the_key_and_what_was_drawn_before(client: Redis) -> None:
    first = await write_share(client, KEYS, 0.1, 5.0)
    second = await write_share(client, KEYS, 0.0, 6.0)

    assert second.key == first.key
    assert second.shares == ((5.0, 0.1), (6.0, 0.0))
    assert await write_share(client, KEYS, 0.0, 7.0) == second


async def test_a_model_that_never_drew_anything_has_no_sample(client: Redis) -> None:
    await model_with(client, 0.0).open()

    assert not await client.hexists(KEYS.schema, "sample")
    assert await read_sample(client, KEYS) == NO_SAMPLE


async def test_only_who_is_told_a_share_writes_it(client: Redis) -> None:
    await model_with(client, 0.25).open()
    await model_with(client, None).open()
    await model_with(client, 0.5).open(sign=False)

    assert (await read_sample(client, KEYS)).share == 0.25


async def test_a_model_that_is_signed_opens_where_redis_refuses_writes_and_keeps_its_share(
    own_redis: RedisServer,
) -> None:
    async with open_client(ConnectionOptions(own_redis.url)) as client:
        await model_with(client, 0.25).open()
        await client.config_set("maxmemory", "1")

        await model_with(client, 0.5).open()

        sample = await read_sample(client, KEYS)
        assert sample.share == 0.25
        with pytest.raises(StoreRefuses) as raised:
            await write_share(client, KEYS, 0.5, 5.0)
        assert sample.key not in f"{raised.value} {raised.value.__cause__!r}"  # it is a secret, and this is logged


async def test_a_mirror_and_a_command_know_which_first_scores_were_drawn(client: Redis) -> None:
    model = await model_with(client, 1.0).open()
    async with running(Mirror(model_with(client, None), 5.0)) as mirror:
        sample = await read_sample(client, KEYS)
        drawn = FirstScore(sample.since + 1, "drawn", 0.25).pack()
        before = FirstScore(sample.since - 1, "before", 0.25).pack()
        for key, packed in (("drawn", drawn), ("before", before)):
            entry = LedgerEntry(key, "ham", 1000, (b"a",), 0.0, "test", "nobody", 0.0, (), packed)
            await model.commit_lesson(key, None, entry, NOTE)
        await mirror.wait_until_applied(await model.last_change())

        for scores in (mirror.loaded_first_scores, await model.first_scores()):
            window = scores["ham"].drawn
            assert window is not None
            assert [score.message_key for score in window.scores()] == ["drawn"]


async def test_a_sample_that_another_program_wrote_is_refused(client: Redis) -> None:
    await client.hset(KEYS.schema, "sample", "key 1.0:many")

    with pytest.raises(StoreIncompatible):
        await read_sample(client, KEYS)
