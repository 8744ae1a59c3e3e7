"""Rows come back exactly; they and their indices go together, and with their messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
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
    recipient_index,
    sender_index,
)
from nbstream.store.settings import MemorySettings
from tests.store.recent.rows import KEYS, NOW, envelope, message_id, write_rows
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
OLD_SCRIPT = Path(__file__).with_name("remember_0_6.lua").read_text(encoding="utf-8")


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
    noted = MessageRow.unpack(message.id, message.pack() + b"\n" + outcome.pack())
    assert noted == replace(message, outcome=outcome)


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


@given(ENVELOPES)
def test_the_names_of_indices_are_short_and_harmless(described: RememberedEnvelope) -> None:
    named = replace(described, action="pass, redirect, quarantine, defer, reject")
    names = MessageRow("m1", NOW, "ham", 0.5, "*@\x00 x", named).index_names()

    assert len(names) == len(set(names)) <= 1 + 1 + 5 + 2 + 2 * 10
    assert all(name.isascii() and len(name) <= 9 and not set(name) & set(" *?[]{}\n\0") for name in names)


@pytest.mark.parametrize(
    "stored",
    [
        b"",
        b"[]",
        b"{}",
        b'[2,1.0,"ham",0.5,"default"]',
        b'[1,1.0,"other",0.5,"default"]',
        b'[1,1.0,"ham",0.5,"default","smtp"]',
        b'[1,[],"ham",0.5,"default"]',
        b"[" * 100_000,
        b"\xff",
        b'[1,1.0,"ham",0.5,"default"]\n["eaten",1.0,"ann"]',
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


def test_an_unknown_sender_is_in_no_index_and_the_null_sender_is() -> None:
    assert row(1, described=envelope(sender=None, recipients=())).index_names() == ["ham"]
    assert row(1, described=envelope(sender="", recipients=())).index_names() == ["ham", sender_index("<>")]
    assert MessageRow("m1", NOW, "spam", 0.5).index_names() == ["spam"]


def test_a_sender_and_a_recipient_of_one_address_are_in_two_indices() -> None:
    assert sender_index("ann@x.example") != recipient_index("ann@x.example")


async def stored_rows(client: Redis) -> dict[str, set[str]]:
    """The ids that have a row, with the names of their indices, after a look at what belongs together."""
    rows: Any = await client.zrange(KEYS.rows, 0, -1, withscores=True)
    entries: Any = await client.zrange(KEYS.row_indices, 0, -1)
    found = {entry.decode().split(" ")[0]: set(entry.decode().split(" ")[1:]) for entry in entries}
    assert len(found) == len(entries)
    assert {key.decode() for key, _ in rows} == found.keys()
    times = {key.decode(): at for key, at in rows}
    indices: dict[str, set[str]] = {key: set() for key in found}
    prefix = KEYS.rows_by("")
    async for key in client.scan_iter(match=prefix + "*", count=1000):
        name = key.decode().removeprefix(prefix)
        members: Any = await client.zrange(key, 0, -1, withscores=True)
        for member, at in members:
            assert times[member.decode()] == at
            indices[member.decode()].add(name)
    assert indices == found
    stored_keys = {key.decode() async for key in client.scan_iter(match=KEYS.row("*"), count=1000)}
    assert stored_keys == {KEYS.row(key) for key in found}
    for key, names in found.items():
        packed: Any = await client.get(KEYS.row(key))
        assert set(MessageRow.unpack(key, packed).index_names()) == names
    return found


STEPS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 12), st.integers(0, 3), st.integers(0, 2)), max_size=6),
        st.integers(1, 1500),
        st.sampled_from([3, 5, 100]),
        st.booleans(),
    ),
    max_size=8,
)
"""Batches of messages, each with its number, its sender and its verdict; the seconds that pass before; the limit
of messages; whether the version before rows writes the batch."""


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=STEPS)
async def test_whatever_is_written_no_row_outlives_its_message_and_no_entry_of_an_index_its_row(
    client: Redis, steps: Sequence[tuple[Sequence[tuple[int, int, int]], int, int, bool]]
) -> None:
    await client.flushdb()
    old_script = client.register_script(OLD_SCRIPT)
    now = NOW
    for batch, passed, limit, by_old_version in steps:
        now += passed
        messages = [
            MessageRow(
                message_id(number),
                now + place / 10,
                ["ham", "spam", "unsure"][verdict],
                0.5,
                envelope=envelope(f"s{sender}@x{sender % 2}.example", (f"r{number}@y.example",)),
            )
            for place, (number, sender, verdict) in enumerate(batch)
        ]
        if by_old_version:
            args: list[Any] = [3600, now - 3600, limit, KEYS.checked("")]
            for message in messages:
                args += message.checked_at, message.id, b"message"
            await old_script(keys=[KEYS.recent], args=args)
            continue
        await write_rows(client, messages, messages=limit, now=now)
        rows = await stored_rows(client)
        remembered: Any = await client.zrange(KEYS.recent, 0, -1)
        assert rows.keys() <= {key.decode() for key in remembered}
        assert rows.keys() >= {message.id for message in messages} & {key.decode() for key in remembered}


async def test_everything_of_a_row_expires_with_its_message(client: Redis) -> None:
    await write_rows(client, [row(1)], seconds=5000)

    async for key in client.scan_iter():
        assert 4900 < await client.ttl(key) <= 5000


async def test_an_expired_row_leaves_nothing_in_the_indices_that_the_next_batch_does_not_remove(
    client: Redis,
) -> None:
    await write_rows(client, [row(1, NOW - 3600)], now=NOW - 3600)
    await client.delete(KEYS.row(message_id(1)), KEYS.checked(message_id(1)))

    await write_rows(client, [row(2, NOW + 1)], now=NOW + 1)

    assert (await stored_rows(client)).keys() == {message_id(2)}


async def test_the_same_batch_may_be_written_again(client: Redis) -> None:
    batch = [row(number) for number in range(5)]
    await write_rows(client, batch)
    before = await stored_rows(client)

    await write_rows(client, batch)

    assert await stored_rows(client) == before


async def test_a_batch_forgets_many_rows_in_small_steps(client: Redis) -> None:
    await write_rows(client, [row(number, NOW - 3600 + number / 1000) for number in range(500)], now=NOW - 3600)

    await write_rows(client, [row(501, NOW + 10)], now=NOW + 10)

    assert 400 < await client.zcard(KEYS.rows) < 500
    for step in range(100):
        await write_rows(client, [row(501, NOW + 11 + step)], now=NOW + 11 + step)
    assert (await stored_rows(client)).keys() == {message_id(501)}


@pytest.mark.parametrize("at_envelopes", [True, False])
async def test_the_row_is_built_when_the_batch_is_written(client: Redis, at_envelopes: bool) -> None:
    options = MemorySettings(envelope=at_envelopes)
    recent = RecentMessages(client, KEYS, options, DroppedMessages(), rows=True)
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


async def test_without_rows_nothing_but_the_message_is_stored(client: Redis) -> None:
    recent = RecentMessages(client, KEYS, MemorySettings(), DroppedMessages())
    async with running(recent):
        recent.remember(checked_message(1), None, envelope)
        await recent.wait_until_written()

    assert sorted(await client.keys("*")) == sorted([KEYS.checked("m1").encode(), KEYS.recent.encode()])


def test_a_row_is_compact() -> None:
    assert json.loads(row(1).pack())[0] == 1
    assert len(row(1).pack()) < 150
