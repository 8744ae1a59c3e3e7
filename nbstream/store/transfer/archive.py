"""A model as a file: gzip over lines of JSON, one record a line, read and written as a stream.

Rules: the first line says what wrote it, the last one how many lines came before and their SHA-256, so that a file
that was cut, or damaged anywhere, is told from a whole one; neither side holds more than a line in memory. A later
line about the same token or message replaces an earlier one; a count of 0 and a message without fields are gone.
Whatever bytes a token has come back as they were (UTF-8 with ``surrogateescape``). A model
with a half-life has it in the signature, with its t0.

    {"format": "nbstream model", "version": 1, "nbstream": "0.1", "signature": {"schema": "2", ...}, "records": 9,
     "exported": 1763746800.0}
    {"counts": "ham", "of": {"body:lunch": 1000, ...}}
    {"message": "abc...", "milliseconds": 31536000000, "fields": {"label": "ham", "tokens": "eJzL...", ...}}
    {"totals": {"messages:ham": 1, ...}}
    {"lines": 4, "sha256": "..."}
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import math
import re
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import IO, Any, TypeAlias

from nbstream import __version__
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.half_life import NO_HALF_LIFE, HalfLife
from nbstream.errors import InputError, StoreIncompatible
from nbstream.store.model import former_version, time_base
from nbstream.store.model.ledger import LedgerEntry

FORMAT_VERSION = 1

_FORMAT_NAME = "nbstream model"
_GZIP_LEVEL = 6
_MAX_LINE_BYTES = 64 << 20  # a small hash comes whole, a message has some thousand tokens: a few MB at most
_MAX_EXACT_COUNT = 2**53  # Lua's numbers hold integers up to here
_PACKED_FIELD = "tokens"  # the one field of a ledger entry that is no text
_STREAM_ID = re.compile(rb"[0-9]{1,19}-[0-9]{1,19}")
_MESSAGE_KEY = re.compile(r"[0-9A-Za-z_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class ArchiveHeader:
    """What wrote the file, the model's signature, and about how many records follow.

    ``half_life`` is the counts' time base, ``exported`` the moment of the export in seconds since the epoch,
    ``migrated`` what the model remembers of a migration (see ``former_version``).
    """

    nbstream: str
    signature: Mapping[str, str]
    records: int
    half_life: HalfLife
    exported: float
    migrated: str = ""


@dataclass(frozen=True, slots=True)
class CountsRecord:
    """Counts of some tokens and sums in one class."""

    label: str
    counts: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """A message's ledger entry as its Redis hash, empty for none, and the lifetime it has left (-1: no end)."""

    message_key: str
    fields: Mapping[bytes, bytes]
    milliseconds: int


@dataclass(frozen=True, slots=True)
class TotalsRecord:
    """The fields of the hash of totals."""

    fields: Mapping[bytes, int]


ArchiveRecord: TypeAlias = CountsRecord | LedgerRecord | TotalsRecord


class ArchiveWriter:
    """Writes one archive to a stream, which stays open."""

    def __init__(self, stream: IO[bytes], header: ArchiveHeader) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0)
        self._digest = hashlib.sha256()
        self._lines = 0
        self._write_line(
            {
                "format": _FORMAT_NAME,
                "version": FORMAT_VERSION,
                "nbstream": header.nbstream,
                "signature": {
                    **header.signature,
                    **_time_base_field(header.half_life),
                    **_migrated(header.migrated),
                },
                "records": header.records,
                "exported": header.exported,
            }
        )

    def write(self, record: ArchiveRecord) -> None:
        """Append a record."""
        self._write_line(_pack_record(record))

    def finish(self) -> None:
        """Write the last line; without it the file is refused as cut."""
        self._write_line({"lines": self._lines, "sha256": self._digest.hexdigest()})
        self._gzip.close()

    def _write_line(self, record: Mapping[str, Any]) -> None:
        line = _decode_bytes(json.dumps(record, ensure_ascii=False, separators=(",", ":"))) + b"\n"
        self._gzip.write(line)
        self._digest.update(line)
        self._lines += 1


class ArchiveReader:
    """Reads one archive. What it says before the last record has come is not to be trusted yet.

    Raises ``InputError`` for a file that is none, cut or damaged, and ``StoreIncompatible`` for one of another
    format or of a model with another signature than ``signature``.
    """

    def __init__(self, stream: IO[bytes], name: str, signature: Mapping[str, str]) -> None:
        self._name = name
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        self._digest = hashlib.sha256()
        self._lines = 0
        found = self._next_value()
        if not isinstance(found, dict) or found.get("format") != _FORMAT_NAME:
            raise InputError(f"{name}: no model that nbstream has exported")
        self.header = _read_header(name, found, signature)

    def __iter__(self) -> Iterator[ArchiveRecord]:
        while True:
            lines, digest = self._lines, self._digest.hexdigest()
            found = self._next_value()
            if isinstance(found, dict) and "sha256" in found:
                break
            try:
                record = _unpack_record(found)
            except (AttributeError, KeyError, TypeError, ValueError, StoreIncompatible) as error:
                raise InputError(f"{self._name}: line {self._lines} is no record of a model") from error
            yield record
        if (found["sha256"], found.get("lines")) != (digest, lines) or self._read_line():
            raise InputError(f"{self._name}: damaged: it does not match its own checksum")

    def _next_value(self) -> Any:
        line = self._read_line()
        if not line.endswith(b"\n"):
            raise InputError(f"{self._name}: {'cut' if self._lines else 'no model that nbstream has exported'}")
        self._digest.update(line)
        self._lines += 1
        try:
            return json.loads(_encode_text(line))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self._name}: damaged in line {self._lines}") from error

    def _read_line(self) -> bytes:
        try:
            return self._gzip.readline(_MAX_LINE_BYTES)
        except (OSError, EOFError, zlib.error) as error:  # OSError is also what gzip raises for a wrong checksum
            what = "cut or damaged" if self._lines else "no model that nbstream has exported"
            raise InputError(f"{self._name}: {what} ({error})") from error


def new_header(
    signature: Mapping[str, str],
    records: int,
    half_life: HalfLife = NO_HALF_LIFE,
    exported: float = 0.0,
    migrated: str = "",
) -> ArchiveHeader:
    """The header of a file that this program writes."""
    return ArchiveHeader(__version__, signature, records, half_life, exported, migrated)


def _time_base_field(half_life: HalfLife) -> Mapping[str, str]:
    """In the signature, so that a program which knows no half-life refuses the file; nothing where is none."""
    return {} if half_life.days is None else {time_base.HALF_LIFE_FIELD: time_base.pack_half_life(half_life)}


def _migrated(migrated: str) -> Mapping[str, str]:
    """In the signature too; nothing where the model was not migrated."""
    return {former_version.FIELD: migrated} if migrated else {}


def _read_header(name: str, found: Mapping[str, Any], signature: Mapping[str, str]) -> ArchiveHeader:
    theirs = {"format version": str(found.get("version"))}
    ours = {"format version": str(FORMAT_VERSION)}
    if theirs == ours:
        stored = found.get("signature")
        theirs = {field: str(value) for field, value in stored.items()} if isinstance(stored, dict) else {}
        ours = dict(signature)
    half_life = time_base.unpack_half_life(theirs.pop(time_base.HALF_LIFE_FIELD, ""))
    migrated = theirs.pop(former_version.FIELD, "")
    if former_version.is_former(theirs, ours):
        migrated = former_version.packed(time.time())
        theirs = dict(signature)
    wrong = [
        f"{field} {theirs.get(field)} (this is {ours.get(field)})"
        for field in sorted(ours | theirs)
        if theirs.get(field) != ours.get(field)
    ]
    if wrong:
        raise StoreIncompatible(
            f"{name} was exported by nbstream {found.get('nbstream')} with {', '.join(wrong)}: "
            "nothing was imported. Import it with an nbstream of that kind"
        )
    records = found.get("records")
    return ArchiveHeader(
        str(found.get("nbstream")),
        theirs,
        records if isinstance(records, int) else 0,
        half_life,
        _export_time(name, found),
        migrated,
    )


def _export_time(name: str, found: Mapping[str, Any]) -> float:
    """When the file was exported; now for one of before that was written."""
    exported = found.get("exported", time.time())
    if not isinstance(exported, float) or not math.isfinite(exported):
        raise InputError(f"{name}: does not say when it was exported")
    return exported


def _pack_record(record: ArchiveRecord) -> Mapping[str, Any]:
    match record:
        case CountsRecord(label, counts):
            return {"counts": label, "of": {_encode_text(name): count for name, count in counts.items()}}
        case LedgerRecord(message_key, fields, milliseconds):
            packed = {_encode_text(name): _pack_field(_encode_text(name), value) for name, value in fields.items()}
            return {"message": message_key, "milliseconds": milliseconds, "fields": packed}
        case TotalsRecord(fields):
            return {"totals": {_encode_text(name): value for name, value in fields.items()}}


def _unpack_record(found: Mapping[str, Any]) -> ArchiveRecord:
    """The record of a line; raises what says that it is none."""
    if "counts" in found:
        if found["counts"] not in CLASSES:
            raise ValueError(found["counts"])
        return CountsRecord(found["counts"], _read_counts(found["of"]))
    if "message" in found:
        if not _MESSAGE_KEY.fullmatch(found["message"]):
            raise ValueError(found["message"])
        fields = {_decode_bytes(name): _unpack_field(name, value) for name, value in found["fields"].items()}
        _check_entry(fields)
        return LedgerRecord(found["message"], fields, _read_count(found["milliseconds"]))
    return TotalsRecord(_read_counts(found["totals"]))


def _check_entry(fields: Mapping[bytes, bytes]) -> None:
    """Raise what says that these are no fields of a ledger entry; none at all are in order.

    Whatever stands in an entry is one day given to the script that unlearns, which must not fail half way.
    """
    entry = LedgerEntry.unpack(fields)
    if entry is None:
        return
    if not _STREAM_ID.fullmatch(entry.change):
        raise ValueError(entry.change)
    if not fields.keys() <= {b"change", *map(str.encode, entry.pack())}:
        raise ValueError("fields of another program")
    for number in (entry.weight, *(amount for _, amount in entry.sums)):
        _read_count(number)
    names = [*entry.tokens, *(name for name, _ in entry.sums)]
    if len(set(names)) < len(names):  # the script takes each of them back once
        raise ValueError("a token or a sum twice")


def _read_counts(found: Mapping[str, Any]) -> dict[bytes, int]:
    if any(not name or "\n" in name for name in found):  # the scripts are given tokens line by line
        raise ValueError("no name of a token or a sum")
    return {_decode_bytes(name): _read_count(number) for name, number in found.items()}


def _read_count(found: Any) -> int:
    if type(found) is not int or not -_MAX_EXACT_COUNT < found < _MAX_EXACT_COUNT:
        raise ValueError("no whole number, or too large")
    return found


def _pack_field(name: str, value: bytes) -> str:
    return base64.b64encode(value).decode() if name == _PACKED_FIELD else _encode_text(value)


def _unpack_field(name: str, value: str) -> bytes:
    return base64.b64decode(value, validate=True) if name == _PACKED_FIELD else _decode_bytes(value)


def _encode_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _decode_bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
