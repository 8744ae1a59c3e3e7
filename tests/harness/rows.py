"""Rows of checked messages for tests, written as a daemon writes them."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

from redis.asyncio import Redis

from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.lua import lua_script
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.message_rows import MessageRow, recipient_indices

KEYS = ModelKeys("test")
NOW = 1_800_000_000.0
"""The time of the newest rows, in seconds since the epoch."""


def envelope(
    sender: str | None = "ann@x.example",
    recipients: Sequence[str] = ("bob@y.example",),
    subject: str | None = "hello",
) -> RememberedEnvelope:
    return RememberedEnvelope("smtp", sender, tuple(recipients), len(recipients), subject, "pass")


def message_id(number: int) -> str:
    """An id like those of messages: 24 characters, in no order of their numbers."""
    alphabet = "abcdefghijklmnopqrstuvwxyz234567"
    mixed = number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 120)
    return "".join(alphabet[mixed >> 5 * place & 31] for place in reversed(range(24)))


async def write_rows(
    client: Redis,
    rows: Collection[MessageRow],
    *,
    seconds: int = 3600,
    messages: int = 1_000_000,
    now: float = NOW,
) -> None:
    """Write messages with these rows in one batch, at the time ``now``."""
    args: list[Any] = [seconds, now - seconds, messages, KEYS.checked(""), KEYS.row(""), KEYS.rows_to("")]
    batch = b""
    for row in rows:
        indices = recipient_indices(row.envelope.recipients) if row.envelope else ()
        values = row.id.encode(), replace(row, indices=tuple(indices)).pack(), b"message"
        batch += struct.pack("<d3I", row.checked_at, *map(len, values)) + b"".join(values)
    args += len(rows), batch
    script = client.register_script(lua_script("remember.lua"))
    await script(keys=[KEYS.recent], args=args)
