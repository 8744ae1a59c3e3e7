"""A model in another time base: all counts are multiplied by one factor, and unlearning stays exact."""

from __future__ import annotations

import gzip
import io
import operator
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.half_life import MAX_COUNT, NO_HALF_LIFE, HalfLife
from nbstream.bayes.lesson_weight import max_entry_weight
from nbstream.errors import CountsFull, StoreIncompatible
from nbstream.store.model.model import Model
from nbstream.store.transfer import archive
from nbstream.store.transfer.archive import archive_signature
from nbstream.store.transfer.model_import import ModelImport, finish_import
from nbstream.store.transfer.time_base_conversion import convert_time_base
from tests.store.algebra import NOTHING, live_entries, stored, summed
from tests.store.lessons import MESSAGES, SUM_NAMES, TOKENS, change, entry
from tests.store.transfer.model_archives import export_model, stored_hashes

DAY = 86_400.0


async def model_of(client: Redis, name: str, half_life: HalfLife) -> Model:
    model = Model(client, name, ledger_seconds=3600, half_life_days=half_life.days, clock=lambda: half_life.since)
    await model.open()
    assert model.half_life == half_life
    return model


async def export_at(model: Model, at: float) -> bytes:
    return await export_model(model, lambda: at)


def reader_of(content: bytes) -> archive.ArchiveReader:
    return archive.ArchiveReader(io.BytesIO(content), "FILE", archive_signature())


async def convert_and_import(model: Model, content: bytes, *, merge: bool = False) -> None:
    records = convert_time_base(reader_of(content), model.half_life)
    model_import = ModelImport(model, merge=merge)
    await model_import.begin()
    try:
        for record in records:
            await model_import.stage(record)
        await model_import.mark_ready()
    finally:
        await model_import.abandon()
    assert await finish_import(model) is not None


weights = st.sampled_from([0, 1, 2, 7, 999, 2999])
lessons = st.tuples(
    st.sampled_from(MESSAGES),
    st.sampled_from(CLASSES),
    st.lists(st.sampled_from(TOKENS), unique=True),
    weights,
    st.builds(
        operator.or_,
        st.dictionaries(st.sampled_from(SUM_NAMES), st.sampled_from([0, 1, 1000, 10**9]), max_size=3),
        st.dictionaries(st.just(SCORE_BINS[3]), st.sampled_from([0, 1, 1000])),  # a message has one first score
    ),
)
half_lives = st.builds(HalfLife, st.sampled_from([7.0, 90.0]), st.floats(0, 100 * DAY)) | st.just(NO_HALF_LIFE)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    lessons=st.lists(lessons, max_size=6),
    source_half_life=half_lives,
    target_half_life=half_lives,
    at=st.floats(90 * DAY, 110 * DAY),
)
async def test_converted_counts_are_the_sum_over_the_ledger_and_unlearning_all_leaves_nothing(
    client: Redis,
    lessons: list[tuple[str, str, list[bytes], int, dict[bytes, int]]],
    source_half_life: HalfLife,
    target_half_life: HalfLife,
    at: float,
) -> None:
    await client.flushall()
    source, target = (
        await model_of(client, "source", source_half_life),
        await model_of(client, "target", target_half_life),
    )
    for message, label, tokens, weight, sums in lessons:
        await change(source, message, entry(label, tokens, weight, list(sums.items())))

    await convert_and_import(target, await export_at(source, at))

    assert await stored(target) == await summed(target)
    factor = target_half_life.conversion_factor(source_half_life, at)
    for key, original in (await live_entries(source)).items():
        converted = await target.entry(key)
        assert converted is not None
        assert converted.tokens == original.tokens
        assert converted.weight == round(original.weight * factor)
        await change(target, key, None)
    assert (await stored(target), await live_entries(target)) == (NOTHING, {})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    source_half_life=half_lives,
    target_half_life=half_lives,
    at=st.floats(105 * DAY, 110 * DAY),
    age=st.sampled_from([0.0, 0.01, 60.0, 5 * DAY]),  # a lesson is not older than its t0
)
async def test_the_heaviest_entry_may_be_exported_and_imported_however_it_was_converted(
    client: Redis, source_half_life: HalfLife, target_half_life: HalfLife, at: float, age: float
) -> None:
    await client.flushall()
    models = [
        await model_of(client, name, half_life)
        for name, half_life in (("source", source_half_life), ("target", target_half_life), ("last", NO_HALF_LIFE))
    ]
    weight = max_entry_weight(source_half_life.growth(at - age))
    await change(models[0], "m", replace(entry("spam", TOKENS, weight), learned_at=at - age))

    for source, target in pairwise(models):
        await convert_and_import(target, await export_at(source, at))

    for model in models:
        assert len(list(reader_of(await export_at(model, at)))) > 1


async def test_counts_without_an_entry_are_multiplied_and_rounded_too(client: Redis) -> None:
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(source, "old", entry("spam", [b"a:1", b"b:1"], 1003, [(b"=x", 12)]))
    await change(source, "new", entry("spam", [b"a:1"], 4001, [(b"=x", 12)]))
    await client.delete(source.keys.ledger("old"))

    await convert_and_import(target, await export_at(source, 33 * DAY))

    counts, totals = await stored(target)
    assert counts == {"ham": {}, "spam": {b"a:1": 251 + 1000, b"b:1": 251, b"=x": 3 + 3}}
    assert totals == {b"messages:spam": 2, b"tokens:spam": 251 + 251 + 1000, b"vocabulary": 2}


async def test_a_sum_that_is_a_multiple_of_the_weight_stays_one(client: Redis) -> None:
    """Otherwise the mean of a number over few messages would change."""
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(
        source, "m", entry("spam", [b"a:1"], 7, [(b"=size.n", 7), (b"=size.x", 7 * 500), (SCORE_BINS[0], 700)])
    )

    await convert_and_import(target, await export_at(source, 0))

    converted = await target.entry("m")
    assert converted is not None
    assert (converted.weight, converted.sums) == (2, ((b"=size.n", 2), (b"=size.x", 1000), (SCORE_BINS[0], 175)))


async def test_records_of_the_same_time_base_are_not_changed(client: Redis) -> None:
    half_life = HalfLife(30.0, 5.5)
    source, target = await model_of(client, "source", half_life), await model_of(client, "target", half_life)
    await change(source, "m", entry("spam", TOKENS, 7_345, [(b"=x", 3)]))
    content = await export_at(source, 40 * DAY)

    assert list(convert_time_base(reader_of(content), half_life)) == list(reader_of(content))
    await convert_and_import(target, content)

    assert await stored_hashes(target) == await stored_hashes(source)


async def test_models_with_different_t0_are_merged_in_the_time_base_of_the_target(client: Redis) -> None:
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(source, "m1", entry("spam", [b"a:1"], 4000))
    await change(target, "m2", entry("spam", [b"a:1"], 500))

    await convert_and_import(target, await export_at(source, 25 * DAY), merge=True)

    counts, _ = await stored(target)
    assert counts["spam"] == {b"a:1": 1000 + 500}
    assert await stored(target) == await summed(target)


async def test_a_conversion_there_and_back_changes_nothing_if_nothing_is_rounded(client: Redis) -> None:
    half_lives = [HalfLife(10.0, 0.0), HalfLife(10.0, 20 * DAY), NO_HALF_LIFE, HalfLife(10.0, 0.0)]
    models = [await model_of(client, f"m{n}", half_life) for n, half_life in enumerate(half_lives)]
    await change(models[0], "m", entry("ham", [b"a:1", b"b:1"], 4096, [(b"=x", 4096)]))

    for source_half_life, target_half_life in pairwise(models):
        await convert_and_import(target_half_life, await export_at(source_half_life, 30 * DAY))

    assert await stored_hashes(models[3]) == await stored_hashes(models[0])


@pytest.mark.parametrize("weight", [5, MAX_COUNT // 4])
async def test_counts_that_would_be_too_large_are_refused_and_nothing_is_imported(
    client: Redis, weight: int
) -> None:
    """The factor is 2 to the power of 10, or of 8,000."""
    since = 0.0 if weight > 5 else -8000 * 10 * DAY
    source = await model_of(client, "source", NO_HALF_LIFE)
    target = await model_of(client, "target", HalfLife(10.0, since))
    await change(source, "m", entry("ham", [b"a:1"], weight))
    if weight > 5:  # the counts of many messages, whose entries have expired
        await client.delete(source.keys.ledger("m"))
    before = await stored_hashes(target)

    with pytest.raises(CountsFull, match="to a new name"):
        await convert_and_import(target, await export_at(source, 100 * DAY))

    assert await stored_hashes(target) == before


async def test_a_target_that_is_not_signed_yet_is_signed_with_the_t0_of_its_counts(client: Redis) -> None:
    """The clock goes on between conversion and signature."""
    source = await model_of(client, "source", NO_HALF_LIFE)
    await change(source, "m", entry("ham", [b"a:1"], 1000))
    ticks = iter([10 * DAY, 20 * DAY, 30 * DAY])
    target = Model(client, "target", ledger_seconds=3600, half_life_days=10, clock=lambda: next(ticks))
    await target.open(sign=False)

    await convert_and_import(target, await export_at(source, 10 * DAY))

    assert (await stored(target))[0]["ham"] == {b"a:1": 1000}
    await target.open()
    assert target.half_life == HalfLife(10, 10 * DAY)


async def test_an_import_is_refused_if_the_t0_of_the_target_changes_meanwhile(client: Redis) -> None:
    source = await model_of(client, "source", NO_HALF_LIFE)
    await change(source, "m", entry("ham", [b"a:1"], 1000))
    target = await model_of(client, "target", HalfLife(10.0, 0.0))
    model_import = ModelImport(target, merge=False)
    await model_import.begin()
    for record in convert_time_base(reader_of(await export_at(source, DAY)), target.half_life):
        await model_import.stage(record)
    target_half_life = Model(client, "target", ledger_seconds=3600, half_life_days=20, clock=lambda: 5 * DAY)
    await target_half_life.open()
    await change(target_half_life, "m2", entry("ham", [b"a:1"], 1000))

    with pytest.raises(StoreIncompatible):
        await model_import.mark_ready()

    await model_import.abandon()
    assert await stored(target_half_life) == await summed(target_half_life)


async def test_an_older_program_refuses_a_model_with_a_half_life(client: Redis) -> None:
    """It compares all fields of the signature, and does not know this one."""
    content = await export_at(await model_of(client, "source", HalfLife(10.0, 3.0)), 0)

    assert b'"half_life":"10.0 3.0"' in gzip.decompress(content)
    assert reader_of(content).header.half_life == HalfLife(10.0, 3.0)
