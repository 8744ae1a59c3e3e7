"""A model moved to another t0 or half-life: all counts by one factor, and unlearning stays exact."""

from __future__ import annotations

import gzip
import io
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.half_life import MAX_COUNT, NO_HALF_LIFE, HalfLife
from nbstream.errors import CountsFull, StoreIncompatible
from nbstream.store.model.model import Model
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive
from nbstream.store.transfer.rebase import convert_time_base
from nbstream.store.transfer.restore import ModelImport, finish_import
from nbstream.store.transfer.snapshot import ModelSnapshot
from tests.store.algebra import live_entries, stored, summed
from tests.store.model.test_exact import NOTHING
from tests.store.model.test_model import MESSAGES, SUM_NAMES, TOKENS, change, entry
from tests.store.transfer.test_transfer import everything

DAY = 86_400.0


async def model_of(client: Redis, name: str, base: HalfLife) -> Model:
    model = Model(client, name, ledger_seconds=3600, half_life_days=base.days, clock=lambda: base.since)
    await model.open()
    assert model.half_life == base
    return model


async def exported(model: Model, at: float) -> bytes:
    stream, snapshot = io.BytesIO(), ModelSnapshot(model, clock=lambda: at)
    writer = archive.ArchiveWriter(stream, await snapshot.header())
    async for record in snapshot.records():
        writer.write(record)
    writer.finish()
    return stream.getvalue()


def reader_of(content: bytes) -> archive.ArchiveReader:
    return archive.ArchiveReader(io.BytesIO(content), "FILE", current_signature())


async def imported(model: Model, content: bytes, *, merge: bool = False) -> None:
    records = convert_time_base(reader_of(content), model.half_life)
    restore = ModelImport(model, merge=merge)
    await restore.begin()
    try:
        for record in records:
            await restore.stage(record)
        await restore.mark_ready()
    finally:
        await restore.abandon()
    assert await finish_import(model) is not None


weights = st.sampled_from([0, 1, 2, 7, 999, 10**6 + 1])
lessons = st.tuples(
    st.sampled_from(MESSAGES),
    st.sampled_from(CLASSES),
    st.lists(st.sampled_from(TOKENS), unique=True),
    weights,
    st.dictionaries(
        st.sampled_from([*SUM_NAMES, SCORE_BINS[3]]), st.sampled_from([0, 1, 1000, 10**9]), max_size=3
    ),
)
bases = st.builds(HalfLife, st.sampled_from([7.0, 90.0]), st.floats(0, 100 * DAY)) | st.just(NO_HALF_LIFE)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(lessons=st.lists(lessons, max_size=6), one=bases, other=bases, at=st.floats(90 * DAY, 110 * DAY))
async def test_after_a_move_counts_are_the_sum_over_the_ledger_and_unlearning_all_leaves_nothing(
    client: Redis,
    lessons: list[tuple[str, str, list[bytes], int, dict[bytes, int]]],
    one: HalfLife,
    other: HalfLife,
    at: float,
) -> None:
    await client.flushall()
    source, target = await model_of(client, "source", one), await model_of(client, "target", other)
    for message, label, tokens, weight, sums in lessons:
        await change(source, message, entry(label, tokens, weight, list(sums.items())))

    await imported(target, await exported(source, at))

    assert await stored(target) == await summed(target)
    factor = other.conversion_factor(one, at)
    for key, former in (await live_entries(source)).items():
        moved = await target.entry(key)
        assert moved is not None
        assert moved.tokens == former.tokens
        assert moved.weight == round(former.weight * factor)
        await change(target, key, None)
    assert (await stored(target), await live_entries(target)) == (NOTHING, {})


async def test_what_no_entry_holds_any_more_is_multiplied_and_rounded_too(client: Redis) -> None:
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(source, "old", entry("spam", [b"a:1", b"b:1"], 1003, [(b"=x", 12)]))
    await change(source, "new", entry("spam", [b"a:1"], 4001, [(b"=x", 12)]))
    await client.delete(source.keys.ledger("old"))

    await imported(target, await exported(source, 33 * DAY))

    counts, totals = await stored(target)
    assert counts == {"ham": {}, "spam": {b"a:1": 251 + 1000, b"b:1": 251, b"=x": 3 + 3}}
    assert totals == {b"messages:spam": 2, b"tokens:spam": 251 + 251 + 1000, b"vocabulary": 2}


async def test_a_sum_that_is_a_multiple_of_the_weight_stays_one(client: Redis) -> None:
    """Else the mean of a number of few messages would be another."""
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(
        source, "m", entry("spam", [b"a:1"], 7, [(b"=size.n", 7), (b"=size.x", 7 * 500), (SCORE_BINS[0], 700)])
    )

    await imported(target, await exported(source, 0))

    moved = await target.entry("m")
    assert moved is not None
    assert (moved.weight, moved.sums) == (2, ((b"=size.n", 2), (b"=size.x", 1000), (SCORE_BINS[0], 175)))


async def test_of_the_same_time_base_all_goes_through_as_it_comes(client: Redis) -> None:
    base = HalfLife(30.0, 5.5)
    source, target = await model_of(client, "source", base), await model_of(client, "target", base)
    await change(source, "m", entry("spam", TOKENS, 12_345, [(b"=x", 3)]))
    content = await exported(source, 40 * DAY)

    assert list(convert_time_base(reader_of(content), base)) == list(reader_of(content))
    await imported(target, content)

    assert await everything(target) == await everything(source)


async def test_models_of_different_t0_are_merged_in_the_unit_of_one(client: Redis) -> None:
    source = await model_of(client, "source", HalfLife(10.0, 0.0))
    target = await model_of(client, "target", HalfLife(10.0, 20 * DAY))
    await change(source, "m1", entry("spam", [b"a:1"], 4000))
    await change(target, "m2", entry("spam", [b"a:1"], 500))

    await imported(target, await exported(source, 25 * DAY), merge=True)

    counts, _ = await stored(target)
    assert counts["spam"] == {b"a:1": 1000 + 500}
    assert await stored(target) == await summed(target)


async def test_there_and_back_is_the_same_where_nothing_is_rounded(client: Redis) -> None:
    bases = [HalfLife(10.0, 0.0), HalfLife(10.0, 20 * DAY), NO_HALF_LIFE, HalfLife(10.0, 0.0)]
    models = [await model_of(client, f"m{n}", base) for n, base in enumerate(bases)]
    await change(models[0], "m", entry("ham", [b"a:1", b"b:1"], 4096, [(b"=x", 4096)]))

    for one, other in pairwise(models):
        await imported(other, await exported(one, 30 * DAY))

    assert await everything(models[3]) == await everything(models[0])


@pytest.mark.parametrize("weight", [5, MAX_COUNT // 4])
async def test_what_would_be_too_large_is_refused_and_nothing_is_imported(client: Redis, weight: int) -> None:
    """There is a factor of 2 to the 10, or to the 8,000."""
    since = 0.0 if weight > 5 else -8000 * 10 * DAY
    source = await model_of(client, "source", NO_HALF_LIFE)
    target = await model_of(client, "target", HalfLife(10.0, since))
    await change(source, "m", entry("ham", [b"a:1"], weight))
    before = await everything(target)

    with pytest.raises(CountsFull, match="to a new name"):
        await imported(target, await exported(source, 100 * DAY))

    assert await everything(target) == before


async def test_a_target_that_is_not_signed_yet_is_signed_with_the_t0_of_its_counts(client: Redis) -> None:
    """The clock goes on between the two."""
    source = await model_of(client, "source", NO_HALF_LIFE)
    await change(source, "m", entry("ham", [b"a:1"], 1000))
    ticks = iter([10 * DAY, 20 * DAY, 30 * DAY])
    target = Model(client, "target", ledger_seconds=3600, half_life_days=10, clock=lambda: next(ticks))
    await target.open(sign=False)

    await imported(target, await exported(source, 10 * DAY))

    assert (await stored(target))[0]["ham"] == {b"a:1": 1000}
    await target.open()
    assert target.half_life == HalfLife(10, 10 * DAY)


async def test_a_t0_that_is_changed_meanwhile_changes_nothing_else(client: Redis) -> None:
    source = await model_of(client, "source", NO_HALF_LIFE)
    await change(source, "m", entry("ham", [b"a:1"], 1000))
    target = await model_of(client, "target", HalfLife(10.0, 0.0))
    restore = ModelImport(target, merge=False)
    await restore.begin()
    for record in convert_time_base(reader_of(await exported(source, DAY)), target.half_life):
        await restore.stage(record)
    other = Model(client, "target", ledger_seconds=3600, half_life_days=20, clock=lambda: 5 * DAY)
    await other.open()
    await change(other, "m2", entry("ham", [b"a:1"], 1000))

    with pytest.raises(StoreIncompatible):
        await restore.mark_ready()

    await restore.abandon()
    assert await stored(other) == await summed(other)


async def test_an_older_program_refuses_a_model_with_a_half_life(client: Redis) -> None:
    """It compares all fields of the signature, and knows this one not."""
    content = await exported(await model_of(client, "source", HalfLife(10.0, 3.0)), 0)

    assert b'"half_life":"10.0 3.0"' in gzip.decompress(content)
    assert reader_of(content).header.half_life == HalfLife(10.0, 3.0)
