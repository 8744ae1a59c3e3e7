"""Learning is addition: on a real Redis, every sequence of changes ends at the sum over the ledger."""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.connect import Params, open_client
from nbstream.store.ledger import Entry
from nbstream.store.model import Model
from tests.conftest import RedisServer

State = tuple[dict[str, dict[bytes, int]], dict[bytes, int]]

TOKENS = [f"token:{n}".encode() for n in range(8)]
MESSAGES = ["m1", "m2", "m3"]


def entry(label: str, tokens: list[bytes], weight: int = 1000) -> Entry:
    return Entry(secrets.token_hex(4), label, weight, tuple(tokens), 1.5, "test", 0.25)


@pytest.fixture
async def model(client: Redis) -> Model:
    opened = Model(client, "test", ledger_seconds=3600)
    await opened.open()
    return opened


async def change(model: Model, message: str, new: Entry | None) -> bytes | None:
    return await model.replace(message, await model.entry(message), new)


async def stored(model: Model) -> State:
    """Counts by class, and totals, exactly as they are in Redis."""
    counts = {}
    for label, key in zip(CLASSES, model.keys.counts, strict=True):
        fields: Any = await model.client.hgetall(key)
        counts[label] = {token: int(count) for token, count in fields.items()}
    totals: Any = await model.client.hgetall(model.keys.totals)
    return counts, {name: int(value) for name, value in totals.items()}


async def expected(model: Model) -> State:
    """The same, summed over the ledger's live entries."""
    counts: dict[str, Counter[bytes]] = {label: Counter() for label in CLASSES}
    totals: Counter[bytes] = Counter()
    for message in MESSAGES:
        found = await model.entry(message)
        if found is None:
            continue
        totals[f"messages:{found.label}".encode()] += 1
        totals[f"tokens:{found.label}".encode()] += found.weight * len(found.tokens)
        counts[found.label].update(dict.fromkeys(found.tokens, found.weight))
    present = {token for label in CLASSES for token, count in counts[label].items() if count}
    totals[b"vocabulary"] = len(present)
    return (
        {label: {token: count for token, count in counts[label].items() if count} for label in CLASSES},
        {name: value for name, value in totals.items() if value},
    )


steps = st.lists(
    st.tuples(
        st.sampled_from(MESSAGES),
        st.one_of(
            st.none(),
            st.tuples(
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
async def test_any_sequence_of_changes_ends_at_the_sum_over_the_ledger(
    client: Redis, steps: list[tuple[str, tuple[str, list[bytes], int] | None]]
) -> None:
    await client.flushall()
    model = Model(client, "test", ledger_seconds=3600)

    for message, new in steps:
        await change(model, message, entry(*new) if new else None)

    assert await stored(model) == await expected(model)


async def test_learn_then_unlearn_gives_back_the_same_fields_and_integers(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:5]))
    before = await stored(model)

    await change(model, "m2", entry("ham", TOKENS[2:]))
    await change(model, "m2", entry("spam", TOKENS[1:4], weight=7))
    await change(model, "m2", None)

    assert await stored(model) == before
    assert await model.entry("m2") is None


async def test_unlearning_everything_leaves_no_counts_and_no_totals(model: Model) -> None:
    for message in MESSAGES:
        await change(model, message, entry("ham", TOKENS))
    for message in MESSAGES:
        await change(model, message, None)

    assert await stored(model) == ({"ham": {}, "spam": {}}, {})


async def test_a_message_of_more_tokens_than_lua_can_unpack_is_learned_whole(model: Model) -> None:
    many = [b"t%d" % n for n in range(9000)]

    await change(model, "m1", entry("spam", many))

    counts, totals = await stored(model)
    assert counts["spam"] == dict.fromkeys(many, 1000)
    assert totals[b"vocabulary"] == 9000


async def test_large_counts_stay_exact(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:1], weight=2**52))
    await change(model, "m2", entry("spam", TOKENS[:1], weight=1))

    assert (await stored(model))[0]["spam"] == {TOKENS[0]: 2**52 + 1}


async def test_a_change_of_an_entry_that_is_no_longer_there_changes_nothing(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))
    stale = await model.entry("m1")
    await change(model, "m1", entry("ham", TOKENS))
    before = await stored(model)

    assert await model.replace("m1", stale, entry("spam", TOKENS)) is None
    assert await model.replace("m1", None, entry("spam", TOKENS)) is None
    assert await stored(model) == before


async def test_the_ledger_gives_back_what_was_written_and_expires(model: Model) -> None:
    new = entry("spam", TOKENS, weight=123)

    change_id = await change(model, "m1", new)

    found = await model.entry("m1")
    assert found is not None
    assert (found.version, found.label, found.weight, found.tokens) == (new.version, "spam", 123, tuple(TOKENS))
    assert (found.learned_at, found.source, found.score, found.change) == (1.5, "test", 0.25, change_id)
    assert 0 < await model.client.ttl(model.keys.ledger("m1")) <= 3600


async def test_concurrent_writers_leave_the_sum_over_the_ledger(model: Model) -> None:
    async def write(number: int) -> None:
        for step in range(20):
            label = CLASSES[(number + step) % 2]
            new = None if step % 5 == 4 else entry(label, TOKENS[number : number + 4])
            for _ in range(50):
                if await change(model, MESSAGES[step % 3], new) is not None:
                    break

    await asyncio.gather(*(write(number) for number in range(4)))

    assert await stored(model) == await expected(model)


async def test_a_look_up_sees_counts_and_totals(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS[:2]))

    counts, totals = await model.look_up([TOKENS[0], b"unknown"])

    assert counts.tolist() == [[0, 1000], [0, 0]]
    assert (totals.messages, totals.tokens, totals.vocabulary) == ((0, 1), (0, 2000), 2)
    assert (await model.look_up([]))[0].shape == (0, 2)


@pytest.mark.parametrize("field", ["schema", "tokenizer", "weight_one"])
async def test_a_model_of_another_version_is_refused_with_a_way_forward(model: Model, field: str) -> None:
    await model.client.hset(model.keys.schema, field, "999")

    with pytest.raises(StoreIncompatible, match=rf"{field} 999 .*set model.name to a new name"):
        await model.open()


async def test_all_keys_of_a_model_share_one_hash_tag(model: Model) -> None:
    await change(model, "m1", entry("spam", TOKENS))

    keys: Any = await model.client.keys("*")
    assert keys
    assert all(key.startswith(b"nbstream:{test}:") for key in keys)


async def test_models_do_not_touch_each_other(model: Model) -> None:
    other = Model(model.client, "other", ledger_seconds=3600)
    await change(other, "m1", entry("spam", TOKENS))

    assert await stored(model) == ({"ham": {}, "spam": {}}, {})


async def test_a_server_that_is_away_is_store_unavailable(own_redis: RedisServer) -> None:
    own_redis.stop()
    model = Model(open_client(Params(own_redis.url, timeout_seconds=1)), "test", 60)

    with pytest.raises(StoreUnavailable):
        await model.entry("m1")
    with pytest.raises(StoreUnavailable):
        await model.replace("m1", None, entry("spam", TOKENS))


async def test_a_server_out_of_memory_refuses_and_changes_nothing(own_redis: RedisServer) -> None:
    client = open_client(Params(own_redis.url))
    model = Model(client, "test", 3600)
    await change(model, "m1", entry("spam", TOKENS))
    before = await stored(model)
    await client.config_set("maxmemory", "1")

    with pytest.raises(StoreUnavailable, match="OutOfMemory"):
        await change(model, "m2", entry("spam", TOKENS))

    assert await stored(model) == before
    await client.aclose()
