"""First scores go with the ledger's entries, in Redis, in mirrors and in memory; only the oldest are dropped."""

from __future__ import annotations

import secrets

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.counts import CLASSES
from nbstream.policy.first_scores import FirstScore, FirstScores
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from nbstream.store.replica.mirror import Mirror
from tests.store.algebra import first_scores, first_scores_of_entries
from tests.store.notes import NOTE
from tests.store.replica.test_mirror import running
from tests.store.transfer.model_archives import export_model, import_model
from tests.waiting import until

KEPT = 3
MESSAGES = [f"m{n}" for n in range(6)]

Step = tuple[str, tuple[str, float, float] | None]

lessons = st.tuples(st.sampled_from(CLASSES), st.integers(0, 9), st.floats(0, 1))
steps = st.lists(st.tuples(st.sampled_from(MESSAGES), st.none() | lessons), max_size=20)


def entry(message: str, label: str, at: float, probability: float, known: LedgerEntry | None) -> LedgerEntry:
    """As the filter writes it: a message that is known keeps its first score."""
    first = known.first_score if known else FirstScore(at, message, probability, ((0.001, False),)).pack()
    return LedgerEntry(secrets.token_hex(4), label, 1000, (b"a",), at, "test", "nobody", 0.0, (), first)


def packed(found: FirstScores) -> dict[str, list[bytes]]:
    return {label: [each.pack() for each in found[label].scores()] for label in CLASSES}


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=steps, after=steps)
async def test_redis_a_mirror_and_a_model_in_memory_hold_the_same(
    client: Redis, before: list[Step], after: list[Step]
) -> None:
    await client.flushall()
    memory, redis = MemoryModel(first_scores=KEPT), Model(client, "test", 3600, first_scores=KEPT)

    async def follow(steps: list[Step]) -> None:
        for message, lesson in steps:
            known = await redis.entry(message)
            new = entry(message, *lesson, known) if lesson else None
            for model in (memory, redis):
                assert isinstance(await model.commit_lesson(message, await model.entry(message), new, NOTE), bytes)

    await follow(before)
    async with running(Mirror(Model(client, "test", 3600, first_scores=KEPT), 5.0)) as mirror:
        await follow(after)
        await mirror.wait_until_applied(await redis.last_change())

        assert packed(await mirror.first_scores()) == packed(await redis.first_scores())
    assert packed(await memory.first_scores()) == packed(await redis.first_scores())
    assert all(len(found) <= KEPT for found in packed(await redis.first_scores()).values())


async def test_an_import_brings_those_of_its_entries_and_keeps_the_newest(client: Redis) -> None:
    source, target = Model(client, "source", 3600), Model(client, "target", 3600, first_scores=KEPT)
    await source.open()
    for at, message in enumerate(MESSAGES):
        await source.commit_lesson(message, None, entry(message, "ham", float(at), 0.5, None), NOTE)

    await import_model(target, await export_model(source))

    kept = [first.message_key for first in (await target.first_scores())["ham"].scores()]
    assert kept == MESSAGES[-KEPT:]
    assert await first_scores(source) == await first_scores_of_entries(source)


async def test_a_message_that_the_target_knows_keeps_its_own(client: Redis) -> None:
    source, target = Model(client, "source", 3600), Model(client, "target", 3600)
    for model, at in ((source, 1.0), (target, 2.0)):
        await model.open()
        await model.commit_lesson("m", None, entry("m", "ham", at, 0.5, None), NOTE)

    await import_model(target, await export_model(source), merge=True)
    await import_model(target, await export_model(target), merge=True)  # its own: nothing is new

    assert [first.at for first in (await target.first_scores())["ham"].scores()] == [2.0]


async def test_a_mirror_sees_what_an_import_brought(client: Redis) -> None:
    source, target = Model(client, "source", 3600), Model(client, "target", 3600)
    for model in (source, target):
        await model.open()
    await source.commit_lesson("m", None, entry("m", "ham", 1.0, 0.5, None), NOTE)
    async with running(Mirror(Model(client, "target", 3600), 5.0)) as mirror:
        await import_model(target, await export_model(source))

        await until(lambda: len(mirror.loaded_first_scores["ham"]) == 1)


async def scans(client: Redis) -> int:
    found = await client.info("commandstats")
    return int(found.get("cmdstat_zscan", {"calls": 0})["calls"])


async def test_a_model_reads_all_once_and_then_what_others_changed(client: Redis) -> None:
    reader, writer = Model(client, "test", 3600), Model(client, "test", 3600, first_scores=KEPT)
    assert packed(await reader.first_scores()) == {label: [] for label in CLASSES}
    before = await scans(client)

    for at, message in enumerate([*MESSAGES, MESSAGES[-1]]):
        known = await writer.entry(message)
        new = None if known else entry(message, "ham", float(at), 0.5, None)
        await writer.commit_lesson(message, known, new, NOTE)
        assert packed(await reader.first_scores()) == packed(await Model(client, "test", 3600).first_scores())
        before += 2  # the model made just now, one a class

    assert [each.message_key for each in (await reader.first_scores())["ham"].scores()] == MESSAGES[-KEPT:-1]
    assert await scans(client) == before


async def test_a_model_reads_all_again_after_an_import(client: Redis) -> None:
    source, target = Model(client, "source", 3600), Model(client, "target", 3600)
    await source.open()
    await target.open()
    assert len((await target.first_scores())["ham"]) == 0
    await source.commit_lesson("m", None, entry("m", "ham", 1.0, 0.5, None), NOTE)

    await import_model(Model(client, "target", 3600), await export_model(source))

    assert len((await target.first_scores())["ham"]) == 1
