"""An archive of a model: any file is refused with a reason, or read; what was read can be written and read again.

The first byte says whether the rest is the file itself, or its lines without the last one and uncompressed.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import io
import json

from nbstream.errors import InputError, StoreIncompatible
from nbstream.store.model.ledger import LedgerEntry, pack_tokens
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer.archive import (
    ArchiveHeader,
    ArchiveReader,
    ArchiveRecord,
    ArchiveWriter,
    CountsRecord,
    LedgerRecord,
    TotalsRecord,
)
from tests.fuzz.target import Choices, FuzzTarget

_TIME = 1_800_000_000.0


def _check(data: bytes) -> None:
    choices = Choices(data)
    content = choices.rest if choices.number(2) else _complete(choices.rest)
    try:
        reader, records = _read(content)
    except (InputError, StoreIncompatible) as error:
        problem = str(error)
    else:
        written = io.BytesIO()
        writer = ArchiveWriter(written, reader.header)
        for record in records:
            _check_record(record)
            writer.write(record)
        writer.finish()
        again, records_again = _read(written.getvalue())
        assert (again.header, records_again) == (reader.header, records)
        problem = "FILE"
    assert problem.startswith("FILE")
    assert problem.isprintable()


def _read(content: bytes) -> tuple[ArchiveReader, list[ArchiveRecord]]:
    reader = ArchiveReader(io.BytesIO(content), "FILE", current_signature(), lambda: _TIME)
    return reader, list(reader)


def _check_record(record: ArchiveRecord) -> None:
    match record:
        case LedgerRecord():
            LedgerEntry.unpack(record.fields)
        case CountsRecord(counts=counts) | TotalsRecord(fields=counts):
            assert all(abs(count) < 2**53 for count in counts.values())


def _complete(lines: bytes) -> bytes:
    lines = lines if lines.endswith(b"\n") else lines + b"\n"
    last = {"lines": lines.count(b"\n"), "sha256": hashlib.sha256(lines).hexdigest()}
    return gzip.compress(lines + json.dumps(last).encode() + b"\n", 1)


def _header(**changes: object) -> bytes:
    header = {
        **{"format": "nbstream model", "nbstream": "0.3.0", "signature": current_signature()},
    }
    return json.dumps({**header, **changes}).encode() + b"\n"


_FIELDS = {
    **{"version": "a1", "label": "spam", "weight": "1000", "sums": "=score:9 1000", "learned_at": "1799999999.5"},
    **{"tokens": base64.b64encode(pack_tokens([b"body:a", b"subject:b"])).decode(), "source": "http"},
    "actor": "ann",
    **{"score": "-0.25", "first": "1799999999.5 abc 0.25 0.001:1", "change": "1799999999500-0"},
}
_ENTRY = json.dumps({"message": "a" * 24, "milliseconds": 1000, "fields": _FIELDS}).encode() + b"\n"
_COUNTS = b'{"counts":"ham","of":{"body:a":1000,"=x":-3,"b\\udcff":9007199254740991}}\n'
_TOTALS = b'{"totals":{"messages:ham":1,"tokens:ham":1000}}\n'
_written = io.BytesIO()
_writer = ArchiveWriter(_written, ArchiveHeader(current_signature()))
_writer.write(TotalsRecord({b"messages:ham": 1}))
_writer.finish()

TARGET = FuzzTarget(
    _check,
    (
        b"\0" + _header() + _COUNTS + _ENTRY + _TOTALS,
        b"\0" + _header(signature={**current_signature(), "format": "2"}),
        b"\0" + _header(nbstream="\x1b[2J", signature={**current_signature(), "format": "\x1b]0;x"}),
        b"\0" + _header() + b'{"message":"x","milliseconds":-1,"fields":{}}\n',
        b"\0" + _header() + b"[" * 3000 + b"\n",
        b"\1" + _written.getvalue(),
        b"\1" + _written.getvalue()[:-9],
    ),
    words=(
        *(
            b'"counts":"spam"',
            b'"of":{',
            b'"message":',
            b'"fields":{',
            b'"totals":{',
            b'"milliseconds":',
            b"null",
            b"NaN",
        ),
        *(
            b"Infinity",
            b"1e400",
            b"-1",
            b"\\ud800",
            b"\\u0000",
            b"true",
            b"[]",
            b"{}",
        ),
    ),
    findings=(b"\0" + _header(nbstream="\ud800"),),
    mutations=1200,
)
