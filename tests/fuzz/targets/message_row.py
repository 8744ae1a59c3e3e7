"""The row of a checked message: any bytes are refused with the documented error, or read and written again."""

from __future__ import annotations

from nbstream.errors import StoreIncompatible
from nbstream.policy.envelope import RememberedEnvelope
from nbstream.store.recent.message_rows import MessageRow
from tests.fuzz.shown_records import show_row
from tests.fuzz.target import FuzzTarget

_KEY = "a" * 24


def _check(data: bytes) -> None:
    try:
        row = MessageRow.unpack(_KEY, data)
    except StoreIncompatible:
        return
    again = MessageRow.unpack(_KEY, row.pack())
    assert (again, again.indices) == (row, row.indices)
    show_row(row)


_ENVELOPE = RememberedEnvelope(
    "smtp", "ann@x.example", ("bob@y.example", ""), 12, "caf\u00e9 \udcff", "pass, quarantine", "Ann \udcff <a@x>"
)

TARGET = FuzzTarget(
    _check,
    (
        MessageRow(_KEY, 1_800_000_000.25, "spam", 0.75, "*@y.example", _ENVELOPE).pack(),
        MessageRow(_KEY, 1_800_000_000.25, "ham", 0.25).pack(),
        b'[1.0,"ham",0.25,"default"]\n["released",1e300,"page \\ud800"]\n["a@x"]\nabcdefgh ABCDEFGH',
        b'[1e400,"ham",0.5,"default"]\n\n\n',
        b'[NaN,"ham",0.5,"default"]\n\n\n',
        b'[1e300,"ham",-1e300,"default","smtp",null,[],1e300,null,"",null]\n\n\n',
        b'[1,"ham",0.5,"default","smtp",7,[8],9,{},null,7]\n\n\n',
    ),
    words=(
        b'\n["released",1800000000.5,"page ann"]',
        b"null",
        b"NaN",
        b"[",
        b"]",
        b'"',
        b"\\ud800",
        b"1e400",
        b",",
        b"{}",
        b"true",
    ),
    max_bytes=1000,
    mutations=600,
)
