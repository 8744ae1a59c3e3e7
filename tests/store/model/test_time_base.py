"""The half-life and t0 of a model in Redis: signed once, the same for all, and another one is refused."""

from __future__ import annotations

import asyncio

import pytest
from redis.asyncio import Redis

from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model import signature as time_base
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from tests.store.lessons import change, entry
from tests.store.mirror.mirrors import running
from tests.waiting import until


def model_of(client: Redis, days: float | None, now: float = 5000.25, name: str = "test") -> Model:
    return Model(client, name, ledger_seconds=3600, half_life_days=days, clock=lambda: now)


async def opened(client: Redis, days: float | None, now: float = 5000.25) -> Model:
    model = model_of(client, days, now)
    await model.open()
    return model


async def test_the_t0_of_a_new_model_is_now_and_stays(client: Redis) -> None:
    first = await opened(client, 30)
    later = await opened(client, 30, now=9000)

    assert first.half_life == later.half_life == HalfLife(30, 5000.25)


async def test_many_that_sign_a_new_model_at_once_agree_on_one_time_base(client: Redis) -> None:
    models = [model_of(client, 30, now) for now in range(1, 9)]

    await asyncio.gather(*(model.open() for model in models))

    assert len({model.half_life for model in models}) == 1


async def test_a_model_signed_by_a_version_without_half_lives_has_none(client: Redis) -> None:
    model = model_of(client, None)
    for name, value in current_signature().items():
        await client.hset(model.keys.schema, name, value)

    await model.open()

    assert model.half_life == NO_HALF_LIFE
    assert await client.hgetall(model.keys.schema) == {
        name.encode(): value.encode() for name, value in current_signature().items()
    }


@pytest.mark.parametrize(
    ("stored", "wanted", "text_part"),
    [
        (30, 60, "with a half-life of 30 days since 1970-01-01T01:23:20Z, wanted is a half-life of 60 days"),
        (30, None, "wanted is no half-life"),
        (None, 60, "was learned with no half-life"),
    ],
)
async def test_another_half_life_is_refused_after_the_first_lesson_and_the_error_says_what_to_do(
    client: Redis, stored: float | None, wanted: float | None, text_part: str
) -> None:
    model = await opened(client, stored)
    await change(model, "m", entry("spam", [b"t"]))
    before = await client.hgetall(model.keys.schema)

    for sign in (True, False):
        with pytest.raises(StoreIncompatible) as refused:
            await model_of(client, wanted).open(sign=sign)

        text = str(refused.value)
        assert text_part in text
        assert f"Set model.half_life_days to {stored or 'null'} again" in text
        assert "nbstream export" in text
        assert "a new model.name, and nbstream import" in text
    assert await client.hgetall(model.keys.schema) == before


@pytest.mark.parametrize(("stored", "wanted"), [(30, 60), (30, None), (None, 60)])
async def test_a_model_without_lessons_accepts_another_half_life(
    client: Redis, stored: float | None, wanted: float | None
) -> None:
    await opened(client, stored)

    other = await opened(client, wanted, now=7000)

    assert other.half_life == (NO_HALF_LIFE if wanted is None else HalfLife(wanted, 7000))
    assert (await opened(client, wanted, now=8000)).half_life == other.half_life


async def test_opening_without_signing_writes_nothing(client: Redis) -> None:
    first = await opened(client, 30)
    before = await client.hgetall(first.keys.schema)
    other = model_of(client, 60)

    await other.open(sign=False)

    assert other.half_life.days == 60
    assert await client.hgetall(first.keys.schema) == before


async def test_a_model_whose_lessons_were_all_unlearned_keeps_its_half_life(client: Redis) -> None:
    """An undo would bring back their weights."""
    model = await opened(client, 30)
    await change(model, "m", entry("spam", [b"t"]))
    await change(model, "m", None)

    with pytest.raises(StoreIncompatible):
        await opened(client, 60)


async def test_a_mirror_that_follows_an_empty_model_sees_its_new_half_life(client: Redis) -> None:
    await opened(client, 30, now=1000)
    mirror = Mirror(model_of(client, 30, now=9000), timeout_seconds=5)
    async with running(mirror):
        assert mirror.half_life == HalfLife(30, 1000)
        await opened(client, 60, now=2000)
        model = await opened(client, 30, now=3000)
        assert model.half_life == HalfLife(30, 3000)

        await until(lambda: mirror.half_life == model.half_life)


async def test_a_second_model_is_signed_with_the_time_base_of_the_first(client: Redis) -> None:
    first = await opened(client, 30)
    layer = model_of(client, None, name="layer")

    await layer.open(time_base=first.half_life)

    assert layer.half_life == first.half_life
    await change(layer, "m", entry("spam", [b"t"]))
    await layer.open(time_base=first.half_life)
    for other in (HalfLife(30, 1.0), HalfLife(31, 5000.25), NO_HALF_LIFE):
        with pytest.raises(StoreIncompatible):
            await layer.open(time_base=other)


@pytest.mark.parametrize("stored", ["thirty", "30", "30 1 2", "-1 5", "nan 5", "30 inf"])
async def test_a_half_life_that_another_program_wrote_is_refused(client: Redis, stored: str) -> None:
    model = await opened(client, 30)
    await client.hset(model.keys.schema, time_base.HALF_LIFE_FIELD, stored)

    with pytest.raises(StoreIncompatible, match="cannot be read"):
        await model.open()


async def test_of_several_that_replace_the_half_life_at_once_none_continues_with_a_wrong_one(
    client: Redis,
) -> None:
    for round_ in range(20):
        await client.flushall()
        await opened(client, 30)
        models = [model_of(client, 60, now) for now in (1000, 2000, 3000)]

        outcomes = await asyncio.gather(*(model.open() for model in models), return_exceptions=True)

        stored = (await opened(client, 60)).half_life
        assert stored.days == 60
        for model, outcome in zip(models, outcomes, strict=True):
            assert isinstance(outcome, StoreUnavailable) or model.half_life == stored, round_
