"""A stored record of the history: any fields are refused with the documented error, or described in words,
with the former entry and without it.

The names and values of the fields have a NUL between them. The tokens of the former entry are deflated here.
"""

from __future__ import annotations

import zlib

from nbstream.errors import StoreIncompatible
from nbstream.store.model.history import HistoryRecord, HistorySelection, read_change, read_record
from tests.fuzz.shown_records import show_changes, show_message
from tests.fuzz.target import FuzzTarget

_TOKENS_FIELD = b"former:tokens"


def _check(data: bytes) -> None:
    words = data.split(b"\0")
    fields = dict(zip(words[::2], words[1::2], strict=False))
    if _TOKENS_FIELD in fields:
        fields[_TOKENS_FIELD] = zlib.compress(fields[_TOKENS_FIELD])
    try:
        record = read_record(b"1799999999500-1", fields)
    except StoreIncompatible:
        return
    assert isinstance(record, HistoryRecord)
    assert record.at == 1_799_999_999.5
    assert record.description
    assert record.former_label == (record.former.label if record.former else None)
    assert read_change(record.id, fields).description == record.description
    assert record in HistorySelection()
    assert record not in HistorySelection(until=1.0)
    show_changes([record])
    show_message(None, [record])


_RECORD = (
    b"id\0"
    + b"a" * 24
    + b"\0label\0spam\0version\0a1\0source\0smtp\0actor\0ann\0before\0"
    + b"0.5 unsure\0after\0"
    + b"0.99 spam"
)
_FORMER = (
    b"\0former:version\0b1\0former:label\0ham\0former:weight\0"
    + b"1000\0former:tokens\0body:a\0former:sums\0\0former:learned_at\0"
    b"1.5\0former:source\0cli\0former:actor\0\0former:score\0" + b"0.25\0former:first\0\0former:change\0" + b"1-0"
)

TARGET = FuzzTarget(
    _check,
    (
        _RECORD,
        _RECORD + _FORMER,
        _RECORD.replace(b"\0spam\0", b"\0\0") + _FORMER,
        _RECORD + _FORMER.replace(b"former:label\0ham", b"former:label\0spam"),
        _RECORD.replace(b"0.5 unsure", b"x"),
        _RECORD.replace(b"0.5 unsure", b"nan unsure"),
        b"",
    ),
    words=(b"\0former:weight\0", b"\0label\0", b"\0version\0", b"\0before\0", b"nan ", b"\0", b"\xff"),
    mutations=400,
)
