"""Rows of checked messages for tests, written as a daemon writes them."""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from typing import Any

from redis.asyncio import Redis

from nbstream.policy.envelope import Addresses, RememberedEnvelope
from nbstream.store.lua import lua_script
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.message_rows import MessageRow

KEYS = ModelKeys("test")
NOW = 1_800_000_000.0
"""The time of the newest rows, in seconds since the epoch."""


def envelope(
    sender: str | None = "ann@x.example",
    recipients: Sequence[str] = ("bob@y.example",),
    subject: str | None = "hello",
) -> RememberedEnvelope:
    addresses = Addresses.of(sender, recipients)
    return RememberedEnvelope(
        "smtp", addresses.sender, addresses.recipients, addresses.recipient_count, subject, "pass"
    )


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
    more_indices: Sequence[str] = (),
) -> None:
    """Write messages with these rows in one batch, at the time ``now``; ``more_indices`` have all of them, too."""
    args: list[Any] = [seconds, now - seconds, messages, KEYS.checked(""), KEYS.row(""), KEYS.rows_by("")]
    batch = b""
    for row in rows:
        values = row.id, row.pack(), " ".join([*row.index_names(), *more_indices]), b"message"
        texts = [value.encode() if isinstance(value, str) else value for value in values]
        batch += struct.pack("<d4I", row.checked_at, *map(len, texts)) + b"".join(texts)
    args += len(rows), batch
    script = client.register_script(lua_script("remember.lua"))
    await script(keys=[KEYS.recent, KEYS.rows, KEYS.row_indices], args=args)
