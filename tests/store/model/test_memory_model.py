"""The model in memory gives the same results as the model in Redis."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.store.model.memory_model import MemoryModel
from nbstream.store.model.model import Model
from tests.harness.algebra import by_label, stored
from tests.harness.lessons import MESSAGES, NOTE, SUM_NAMES, TOKENS, Step, entry, steps

NAMES = [*TOKENS, *SUM_NAMES]


async def nonzero_counts(model: MemoryModel) -> dict[str, dict[bytes, int]]:
    """The counts by class that are not zero."""
    rows, _ = await model.look_up(NAMES)
    return {
        label: {name: int(count) for name, count in zip(NAMES, column, strict=True) if count}
        for label, column in zip(CLASSES, rows.T, strict=True)
    }


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_the_same_changes_give_the_same_counts_as_in_redis_and_none_when_all_are_taken_back(
    client: Redis, steps: list[Step]
) -> None:
    await client.flushall()
    memory, redis = MemoryModel(), Model(client, "test", ledger_seconds=3600)

    for message, lesson in steps:
        new = entry(*lesson) if lesson else None
        for model in (memory, redis):
            assert isinstance(await model.commit_lesson(message, await model.entry(message), new, NOTE), bytes)

    counts, _ = await stored(redis)
    assert await nonzero_counts(memory) == by_label(counts)
    assert (await memory.look_up([]))[1] == await redis.totals() == (await redis.counts()).totals

    for message in MESSAGES:
        for model in (memory, redis):
            await model.commit_lesson(message, await model.entry(message), None, NOTE)

    assert await nonzero_counts(memory) == {"ham": {}, "spam": {}}
    assert (await memory.look_up([]))[1] == Totals()
    assert await stored(redis) == ({"ham": {}, "spam": {}}, {})
