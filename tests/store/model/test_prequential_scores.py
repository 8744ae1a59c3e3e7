"""Prequential scores go with the ledger's entries, everywhere; only the oldest are dropped."""

from __future__ import annotations

import secrets

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.policy.thresholds import PrequentialScore, PrequentialScores
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from tests.harness.algebra import prequential_scores, prequential_scores_of_entries
from tests.harness.followers import running
from tests.harness.lessons import NOTE
from tests.harness.model_archives import export_model, import_model

LIMIT = 3
MESSAGES = [f"m{n}" for n in range(6)]

Step = tuple[str, tuple[str, float, float] | None]

lessons = st.tuples(st.sampled_from(CLASSES), st.integers(0, 9), st.floats(0, 1))
steps = st.lists(st.tuples(st.sampled_from(MESSAGES), st.none() | lessons), max_size=20)


def entry(message: str, label: str, at: float, probability: float, old: LedgerEntry | None) -> LedgerEntry:
    """An entry as the filter writes it: a message that was learned before keeps its prequential score."""
    first = old.prequential_score if old else PrequentialScore(at, message, probability).pack()
    return LedgerEntry(secrets.token_hex(4), label, 1000, (b"a",), at, "test", "nobody", 0.0, (), first)


def packed(scores: PrequentialScores) -> dict[str, list[bytes]]:
    return {label: [score.pack() for score in scores[label].scores()] for label in CLASSES}


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(before=steps, after=steps)
async def test_redis_a_follower_and_a_model_in_memory_hold_the_same_prequential_scores(
    client: Redis, before: list[Step], after: list[Step]
) -> None:
    await client.flushall()
    memory, redis = MemoryModel(prequential_scores=LIMIT), Model(client, "test", 3600, prequential_scores=LIMIT)

    async def follow(steps: list[Step]) -> None:
        for message, lesson in steps:
            old = await redis.entry(message)
            new = entry(message, *lesson, old) if lesson else None
            for model in (memory, redis):
                assert isinstance(await model.commit_lesson(message, await model.entry(message), new, NOTE), bytes)

    await follow(before)
    async with running(FollowedCounts(Model(client, "test", 3600, prequential_scores=LIMIT))) as followed:
        await follow(after)
        await followed.wait_until_applied(await redis.last_change())

        assert packed(await followed.prequential_scores()) == packed(await redis.prequential_scores())
    assert packed(await memory.prequential_scores()) == packed(await redis.prequential_scores())
    assert all(len(scores) <= LIMIT for scores in packed(await redis.prequential_scores()).values())


async def test_an_import_adds_the_prequential_scores_of_its_entries_and_the_newest_stay(client: Redis) -> None:
    source, target = Model(client, "source", 3600), Model(client, "target", 3600, prequential_scores=LIMIT)
    await source.open()
    for at, message in enumerate(MESSAGES):
        await source.commit_lesson(message, None, entry(message, "ham", float(at), 0.5, None), NOTE)

    await import_model(target, await export_model(source))

    message_keys = [first.message_key for first in (await target.prequential_scores())["ham"].scores()]
    assert message_keys == MESSAGES[-LIMIT:]
    assert await prequential_scores(source) == await prequential_scores_of_entries(source)


async def scan_calls(client: Redis) -> int:
    commands = await client.info("commandstats")
    return int(commands.get("cmdstat_zscan", {"calls": 0})["calls"])


async def test_a_model_scans_prequential_scores_once_and_then_follows_the_changes(client: Redis) -> None:
    reader, writer = Model(client, "test", 3600), Model(client, "test", 3600, prequential_scores=LIMIT)
    assert packed(await reader.prequential_scores()) == {label: [] for label in CLASSES}
    before = await scan_calls(client)

    for at, message in enumerate([*MESSAGES, MESSAGES[-1]]):
        old = await writer.entry(message)
        new = None if old else entry(message, "ham", float(at), 0.5, None)
        await writer.commit_lesson(message, old, new, NOTE)
        assert packed(await reader.prequential_scores()) == packed(
            await Model(client, "test", 3600).prequential_scores()
        )
        before += 2  # the model made just now, one a class

    assert [first.message_key for first in (await reader.prequential_scores())["ham"].scores()] == MESSAGES[
        -LIMIT:-1
    ]
    assert await scan_calls(client) == before
