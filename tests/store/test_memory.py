"""The model in memory keeps what the one in Redis promises."""

from __future__ import annotations

import secrets

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.counts import CLASSES, Totals
from nbstream.store.ledger import Entry
from nbstream.store.memory import MemoryModel
from nbstream.store.model import Model

TOKENS = [f"token:{n}".encode() for n in range(8)]
MESSAGES = ["m1", "m2", "m3"]


def entry(label: str, tokens: list[bytes], weight: int = 1000) -> Entry:
    return Entry(secrets.token_hex(4), label, weight, tuple(tokens), 1.5, "test", 0.1)


steps = st.lists(
    st.tuples(
        st.sampled_from(MESSAGES),
        st.one_of(
            st.none(),
            st.builds(
                entry,
                st.sampled_from(CLASSES),
                st.lists(st.sampled_from(TOKENS), unique=True),
                st.sampled_from([0, 1, 1000]),
            ),
        ),
    ),
    max_size=12,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps)
async def test_the_same_changes_give_the_same_counts_and_totals_as_in_redis(
    client: Redis, steps: list[tuple[str, Entry | None]]
) -> None:
    await client.flushall()
    memory, stored = MemoryModel(), Model(client, "test", ledger_seconds=3600)

    for message, new in steps:
        for model in (memory, stored):
            assert await model.replace(message, await model.entry(message), new) is not None

    ours, totals = await memory.look_up(TOKENS)
    theirs, expected = await stored.look_up(TOKENS)
    assert ours.tolist() == theirs.tolist()
    assert totals == expected


async def test_an_empty_model_knows_nothing() -> None:
    model = MemoryModel()

    counts, totals = await model.look_up([b"a"])

    assert counts.tolist() == [[0, 0]]
    assert totals == Totals()
    assert await model.entry("m1") is None
    assert await model.last_change() == b""


async def test_an_entry_comes_back_as_it_was_with_the_id_of_its_change() -> None:
    model, new = MemoryModel(), entry("spam", TOKENS, 123)

    change = await model.replace("m1", None, new)

    found = await model.entry("m1")
    assert found is not None
    assert (found.version, found.label, found.weight, found.tokens) == (new.version, "spam", 123, tuple(TOKENS))
    assert (found.learned_at, found.source, found.score, found.change) == (1.5, "test", 0.1, change)
    assert await model.last_change() == change


async def test_a_change_of_an_entry_that_is_no_longer_there_changes_nothing() -> None:
    model = MemoryModel()
    await model.replace("m1", None, entry("spam", TOKENS))
    stale = await model.entry("m1")
    await model.replace("m1", stale, entry("ham", TOKENS))
    before = (await model.look_up(TOKENS))[0].tolist()

    assert await model.replace("m1", stale, entry("spam", TOKENS)) is None
    assert await model.replace("m1", None, entry("spam", TOKENS)) is None
    assert (await model.look_up(TOKENS))[0].tolist() == before
