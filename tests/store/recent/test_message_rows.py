"""Rows come back exactly; they and their indices go together, and with their messages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.policy.verdict import Verdict
from nbstream.store.recent.checked_messages import RecentMessages
from nbstream.store.recent.message_rows import (
    NULL_SENDER,
    MessageRow,
    OutcomeKind,
    QuarantineOutcome,
    QuarantineOutcomes,
    address_matches,
    normalize_address,
)
from nbstream.store.settings import MemorySettings
from tests.harness.rows import KEYS, NOW, envelope, message_id, write_rows
from tests.store.recent.test_checked_messages import DroppedMessages, checked_message, running

HOSTILE_TEXT = st.text(st.characters()) | st.sampled_from(
    ["\ud800\udc00", "\x00", "\udcff", '"],["', "\u202e", "<script>", "{{ 7 * 7 }}", "a\r\nb", "[1]"]
)
"""Any text, with surrogates and control characters."""

ENVELOPES = st.builds(
    RememberedEnvelope,
    st.sampled_from(["smtp", "lmtp", "milter", "http", "spamd", "stream"]),
    st.none() | HOSTILE_TEXT,
    st.lists(HOSTILE_TEXT, max_size=10).map(tuple),
    st.integers(0, 50_000),
    st.none() | HOSTILE_TEXT,
    HOSTILE_TEXT,
)


def row(number: int, at: float | None = None, *, described: RememberedEnvelope | None = None) -> MessageRow:
    return MessageRow(
        message_id(number), NOW - 100 + number if at is None else at, "ham", 0.25, envelope=described or envelope()
    )


@given(
    st.builds(
        MessageRow,
        st.just("m1"),
        st.floats(0, 1e11),
        st.sampled_from(list(map(str, Verdict))),
        st.floats(0, 1),
        HOSTILE_TEXT,
        st.none() | ENVELOPES,
    )
)
def test_what_is_unpacked_is_what_was_packed(message: MessageRow) -> None:
    assert MessageRow.unpack("m1", message.pack()) == message


@given(st.sampled_from(OutcomeKind), st.floats(0, 1e11), HOSTILE_TEXT)
def test_what_became_of_a_message_is_read_as_it_was_noted(kind: OutcomeKind, at: float, actor: str) -> None:
    outcome = QuarantineOutcome(kind, at, actor)
    message = row(1)
    noted = replace(message, outcome=outcome)
    assert MessageRow.unpack(message.id, noted.pack()) == noted


async def test_what_became_of_a_message_is_remembered_with_its_row_alone(client: Redis) -> None:
    message = row(1)
    outcomes = QuarantineOutcomes(client, KEYS)
    await write_rows(client, [message])
    seconds = await client.ttl(KEYS.row(message.id))

    for key in (message.id, message_id(2)):
        await outcomes.note(key, OutcomeKind.DELETED, "ann")
        await outcomes.note(key, OutcomeKind.RELEASED, "ben")

    packed: Any = await client.get(KEYS.row(message.id))
    noted = MessageRow.unpack(message.id, packed)
    assert noted.outcome
    assert (noted.outcome.kind, noted.outcome.actor) == ("released", "ben")
    assert replace(noted, outcome=None) == message
    assert 0 < await client.ttl(KEYS.row(message.id)) <= seconds
    assert not await client.exists(KEYS.row(message_id(2)))


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]\n\n\n",
        b"{}\n\n\n",
        b'[1.0,"ham",0.5,"default"]',
        b'[1.0,"other",0.5,"default"]\n\n\n',
        b'[1.0,"ham",0.5,"default","smtp"]\n\n\n',
        b'[[],"ham",0.5,"default"]\n\n\n',
        b"[" * 100_000 + b"\n\n\n",
        b"\xff\n\n\n",
        b'[1.0,"ham",0.5,"default"]\n["eaten",1.0,"ann"]\n\n',
        b'[1.0,"ham",0.5,"default"]\n["released",1.0,5]\n\n',
        b'[1.0,"ham",NaN,"default"]\n\n\n',
        b'[1.0,"ham",0.5,5]\n\n\n',
        b'[1.0,"ham",0.5,"default","smtp",5,["b@y.example"],1,"Hello","pass",null]\n\n\n',
        b'[1.0,"ham",0.5,"default","smtp","a@x.example",[5],1,"Hello","pass",null]\n\n\n',
        b'[1.0,"ham",0.5,"default","smtp","a@x.example",["b@y.example"],1,5,"pass",null]\n\n\n',
        b'[1.0,"ham",0.5,"default","smtp","a@x.example",["b@y.example"],1,"Hello",5,null]\n\n\n',
    ],
)
def test_a_value_of_another_program_is_refused(stored: bytes) -> None:
    with pytest.raises(StoreIncompatible):
        MessageRow.unpack("m1", stored)


def test_an_address_is_found_by_itself_and_by_its_domain_in_any_case() -> None:
    assert address_matches("Ann@X.Example", normalize_address(" <ann@x.example> "))
    assert address_matches("Ann@X.Example", "@x.example")
    assert not address_matches("Ann@X.Example", "@example")
    assert not address_matches("Ann@X.Example", "nn@x.example")
    assert address_matches('"a@b"@x.example', "@x.example")
    assert address_matches("root", "root")
    assert address_matches("", normalize_address(NULL_SENDER))


async def stored_rows(client: Redis) -> dict[str, set[str]]:
    """The ids that have a row, with the names of their indices, after a look at what belongs together."""
    rows: Any = await client.zrange(KEYS.recent, 0, -1, withscores=True)
    times = {key.decode(): at for key, at in rows}
    indices: dict[str, set[str]] = {key: set() for key in times}
    prefix = KEYS.rows_to("")
    async for key in client.scan_iter(match=prefix + "*", count=1000):
        name = key.decode().removeprefix(prefix)
        members: Any = await client.zrange(key, 0, -1, withscores=True)
        for member, at in members:
            assert times[member.decode()] == at
            indices[member.decode()].add(name)
    for key, names in indices.items():
        packed: Any = await client.get(KEYS.row(key))
        assert set(MessageRow.unpack(key, packed).indices) == names
    return indices


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3)), max_size=6),
        st.integers(1, 200),
        st.sampled_from([3, 5, 100]),
    ),
    max_size=8,
)
"""Batches of messages, each with its number and its recipient; the seconds that pass before; the limit of
messages."""


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_whatever_is_written_no_row_outlives_its_message_and_no_entry_of_an_index_its_row(
    client: Redis, steps: Sequence[tuple[Sequence[tuple[int, int]], int, int]]
) -> None:
    await client.flushdb()
    now = NOW
    for batch, passed, limit in steps:
        now += passed
        messages = [
            MessageRow(
                message_id(number), now + place / 10, "ham", 0.5, envelope=envelope(recipients=(f"r{to}@y",))
            )
            for place, (number, to) in enumerate(batch)
        ]
        await write_rows(client, messages, messages=limit, now=now)
        remembered: Any = await client.zrange(KEYS.recent, 0, -1)
        assert (await stored_rows(client)).keys() == {key.decode() for key in remembered}


async def test_an_expired_row_leaves_nothing_in_the_indices_that_the_next_batch_does_not_remove(
    client: Redis,
) -> None:
    await write_rows(client, [row(1, NOW - 3600)], now=NOW - 3600)
    await client.delete(KEYS.row(message_id(1)), KEYS.checked(message_id(1)))

    await write_rows(client, [row(2, NOW + 1)], now=NOW + 1)

    assert (await stored_rows(client)).keys() == {message_id(2)}


@pytest.mark.parametrize("at_envelopes", [True, False])
async def test_the_row_is_built_when_the_batch_is_written(client: Redis, at_envelopes: bool) -> None:
    options = MemorySettings(envelope=at_envelopes)
    recent = RecentMessages(client, KEYS, options, DroppedMessages())
    built = asyncio.Event()

    def build_envelope() -> RememberedEnvelope:
        built.set()
        return envelope(subject="lazily")

    recent.remember(checked_message(1), None, build_envelope)
    recent.remember(checked_message(2))
    assert not built.is_set()
    async with running(recent):
        await recent.wait_until_written()

    packed: Any = await client.get(KEYS.row("m1"))
    stored = MessageRow.unpack("m1", packed)
    assert stored.envelope == (envelope(subject="lazily") if at_envelopes else None)
    assert stored.checked_at == (await client.zscore(KEYS.recent, "m1"))
    assert (stored.verdict, stored.probability, stored.policy) == ("unsure", 0.001, "default")
    other: Any = await client.get(KEYS.row("m2"))
    assert MessageRow.unpack("m2", other).envelope is None
    assert await recent.recall("m1") == checked_message(1)
