"""A stored ledger entry: any fields are refused with the documented error, or packed again as they were.

The names and values of the fields have a NUL between them. The tokens are deflated here.
"""

from __future__ import annotations

import math
import zlib

from nbstream.errors import StoreIncompatible
from nbstream.store.model.ledger import (
    LedgerEntry,
    join_sums,
    split_sums,
    split_tokens,
    unpack_tokens,
)
from nbstream.tokens.tokens import join_tokens
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    words = data.split(b"\0")
    fields = dict(zip(words[::2], words[1::2], strict=False))
    tokens = fields.get(b"tokens", b"")
    if b"tokens" in fields:
        assert unpack_tokens(zlib.compress(tokens)) == split_tokens(tokens)
        assert join_tokens(split_tokens(tokens)) == tokens
        fields[b"tokens"] = zlib.compress(tokens)
    try:
        entry = LedgerEntry.unpack(fields)
    except StoreIncompatible:
        return
    if entry is None:
        assert not fields
        return
    packed = {name.encode(): _as_bytes(value) for name, value in entry.pack().items()}
    again = LedgerEntry.unpack({**packed, b"change": entry.change})
    assert again is not None
    if not math.isnan(entry.score + entry.learned_at):
        assert again == entry
    assert again.pack() == entry.pack()
    assert split_sums(join_sums(entry.sums)) == entry.sums


def _as_bytes(value: str | bytes) -> bytes:
    return value.encode() if isinstance(value, str) else value


def _fields(**changes: bytes) -> bytes:
    fields = {
        **{"version": b"a1b2", "label": b"spam", "weight": b"1000", "tokens": b"body:a\nsubject:b"},
        **{
            "sums": b"=score:9 1000 =x -3",
            "learned_at": b"1799999999.5",
            "source": b"smtp",
            "actor": b"192.0.2.1",
        },
        **{"score": b"-0.25", "first": b"1799999999.5 abc 0.25 0.001:1", "change": b"1799999999500-0"},
    }
    return b"\0".join(word for name, value in {**fields, **changes}.items() for word in (name.encode(), value))


TARGET = FuzzTarget(
    _check,
    (
        _fields(),
        _fields(label=b"other"),
        _fields(weight=b"1_000", learned_at=b"nan", score=b"-inf"),
        _fields(tokens=b"", sums=b"", first=b""),
        _fields(weight=b"9" * 4000 + b"9" * 500),
        _fields(first=b"1e999 x 0.5", actor=b"\xff"),
        b"",
    ),
    words=(
        b"\0sums\0",
        b"\0weight\0",
        b"\0first\0",
        b"\0score\0",
        b"1e309",
        b"nan",
        b"inf",
        b"_",
        b" ",
        b"\xd9\xa3",
    ),
    max_bytes=6000,
    mutations=2000,
)
