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
from nbstream.bayes.half_life import FOR_EVER, HalfLife
from nbstream.errors import InputError, StoreIncompatible
from nbstream.store.model import former_version, time_base
from nbstream.store.model.ledger import Entry

FORMAT_VERSION = 1

_FORMAT = "nbstream model"
_LEVEL = 6
_LONGEST_LINE = 64 << 20  # a small hash comes whole, a message has some thousand tokens: a few MB at most
_EXACT = 2**53  # Lua's numbers hold integers up to here
_PACKED = "tokens"  # the one field of a ledger entry that is no text
_STREAM_ID = re.compile(rb"[0-9]{1,19}-[0-9]{1,19}")
_MESSAGE_KEY = re.compile(r"[0-9A-Za-z_.-]{1,100}")


@dataclass(frozen=True, slots=True)
class Header:
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
class Column:
    """Counts of some tokens and sums in one class."""

    label: str
    counts: Mapping[bytes, int]


@dataclass(frozen=True, slots=True)
class Kept:
    """A message's ledger entry as its Redis hash, empty for none, and the lifetime it has left (-1: no end)."""

    message_key: str
    fields: Mapping[bytes, bytes]
    milliseconds: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The fields of the hash of totals."""

    fields: Mapping[bytes, int]


Record: TypeAlias = Column | Kept | Sizes


class Writer:
    """Writes one archive to a stream, which stays open."""

    def __init__(self, stream: IO[bytes], header: Header) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_LEVEL, fileobj=stream, mtime=0)
        self._digest = hashlib.sha256()
        self._lines = 0
        self._line(
            {
                "format": _FORMAT,
                "version": FORMAT_VERSION,
                "nbstream": header.nbstream,
                "signature": {**header.signature, **_time_base(header.half_life), **_migrated(header.migrated)},
                "records": header.records,
                "exported": header.exported,
            }
        )

    def write(self, record: Record) -> None:
        """Append a record."""
        self._line(_packed(record))

    def end(self) -> None:
        """Write the last line; without it the file is refused as cut."""
        self._line({"lines": self._lines, "sha256": self._digest.hexdigest()})
        self._gzip.close()

    def _line(self, record: Mapping[str, Any]) -> None:
        line = _bytes(json.dumps(record, ensure_ascii=False, separators=(",", ":"))) + b"\n"
        self._gzip.write(line)
        self._digest.update(line)
        self._lines += 1


class Reader:
    """Reads one archive. What it says before the last record has come is not to be trusted yet.

    Raises ``InputError`` for a file that is none, cut or damaged, and ``StoreIncompatible`` for one of another
    format or of a model with another signature than ``signature``.
    """

    def __init__(self, stream: IO[bytes], name: str, signature: Mapping[str, str]) -> None:
        self._name = name
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        self._digest = hashlib.sha256()
        self._lines = 0
        found = self._next()
        if not isinstance(found, dict) or found.get("format") != _FORMAT:
            raise InputError(f"{name}: no model that nbstream has exported")
        self.header = _header(name, found, signature)

    def __iter__(self) -> Iterator[Record]:
        while True:
            lines, digest = self._lines, self._digest.hexdigest()
            found = self._next()
            if isinstance(found, dict) and "sha256" in found:
                break
            try:
                record = _unpacked(found)
            except (AttributeError, KeyError, TypeError, ValueError, StoreIncompatible) as error:
                raise InputError(f"{self._name}: line {self._lines} is no record of a model") from error
            yield record
        if (found["sha256"], found.get("lines")) != (digest, lines) or self._read():
            raise InputError(f"{self._name}: damaged: it does not match its own checksum")

    def _next(self) -> Any:
        line = self._read()
        if not line.endswith(b"\n"):
            raise InputError(f"{self._name}: {'cut' if self._lines else 'no model that nbstream has exported'}")
        self._digest.update(line)
        self._lines += 1
        try:
            return json.loads(_text(line))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{self._name}: damaged in line {self._lines}") from error

    def _read(self) -> bytes:
        try:
            return self._gzip.readline(_LONGEST_LINE)
        except (OSError, EOFError, zlib.error) as error:  # OSError is also what gzip raises for a wrong checksum
            what = "cut or damaged" if self._lines else "no model that nbstream has exported"
            raise InputError(f"{self._name}: {what} ({error})") from error


def header(
    signature: Mapping[str, str],
    records: int,
    half_life: HalfLife = FOR_EVER,
    exported: float = 0.0,
    migrated: str = "",
) -> Header:
    """The header of a file that this program writes."""
    return Header(__version__, signature, records, half_life, exported, migrated)


def _time_base(half_life: HalfLife) -> Mapping[str, str]:
    """In the signature, so that a program which knows no half-life refuses the file; nothing where is none."""
    return {} if half_life.days is None else {time_base.FIELD: time_base.packed(half_life)}


def _migrated(migrated: str) -> Mapping[str, str]:
    """In the signature too; nothing where the model was not migrated."""
    return {former_version.FIELD: migrated} if migrated else {}


def _header(name: str, found: Mapping[str, Any], signature: Mapping[str, str]) -> Header:
    theirs = {"format version": str(found.get("version"))}
    ours = {"format version": str(FORMAT_VERSION)}
    if theirs == ours:
        stored = found.get("signature")
        theirs = {field: str(value) for field, value in stored.items()} if isinstance(stored, dict) else {}
        ours = dict(signature)
    half_life = time_base.unpacked(theirs.pop(time_base.FIELD, ""))
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
    return Header(
        str(found.get("nbstream")),
        theirs,
        records if isinstance(records, int) else 0,
        half_life,
        _moment(name, found),
        migrated,
    )


def _moment(name: str, found: Mapping[str, Any]) -> float:
    """When the file was exported; now for one of before that was written."""
    exported = found.get("exported", time.time())
    if not isinstance(exported, float) or not math.isfinite(exported):
        raise InputError(f"{name}: does not say when it was exported")
    return exported


def _packed(record: Record) -> Mapping[str, Any]:
    match record:
        case Column(label, counts):
            return {"counts": label, "of": {_text(name): count for name, count in counts.items()}}
        case Kept(message_key, fields, milliseconds):
            packed = {_text(name): _packed_field(_text(name), value) for name, value in fields.items()}
            return {"message": message_key, "milliseconds": milliseconds, "fields": packed}
        case Sizes(fields):
            return {"totals": {_text(name): value for name, value in fields.items()}}


def _unpacked(found: Mapping[str, Any]) -> Record:
    """The record of a line; raises what says that it is none."""
    if "counts" in found:
        if found["counts"] not in CLASSES:
            raise ValueError(found["counts"])
        return Column(found["counts"], _numbers(found["of"]))
    if "message" in found:
        if not _MESSAGE_KEY.fullmatch(found["message"]):
            raise ValueError(found["message"])
        fields = {_bytes(name): _unpacked_field(name, value) for name, value in found["fields"].items()}
        _check_entry(fields)
        return Kept(found["message"], fields, _number(found["milliseconds"]))
    return Sizes(_numbers(found["totals"]))


def _check_entry(fields: Mapping[bytes, bytes]) -> None:
    """Raise what says that these are no fields of a ledger entry; none at all are in order.

    Whatever stands in an entry is one day given to the script that unlearns, which must not fail half way.
    """
    entry = Entry.unpack(fields)
    if entry is None:
        return
    if not _STREAM_ID.fullmatch(entry.change):
        raise ValueError(entry.change)
    if not fields.keys() <= {b"change", *map(str.encode, entry.pack())}:
        raise ValueError("fields of another program")
    for number in (entry.weight, *(amount for _, amount in entry.sums)):
        _number(number)
    names = [*entry.tokens, *(name for name, _ in entry.sums)]
    if len(set(names)) < len(names):  # the script takes each of them back once
        raise ValueError("a token or a sum twice")


def _numbers(found: Mapping[str, Any]) -> dict[bytes, int]:
    if any(not name or "\n" in name for name in found):  # the scripts are given tokens line by line
        raise ValueError("no name of a token or a sum")
    return {_bytes(name): _number(number) for name, number in found.items()}


def _number(found: Any) -> int:
    if type(found) is not int or not -_EXACT < found < _EXACT:
        raise ValueError("no whole number, or too large")
    return found


def _packed_field(name: str, value: bytes) -> str:
    return base64.b64encode(value).decode() if name == _PACKED else _text(value)


def _unpacked_field(name: str, value: str) -> bytes:
    return base64.b64decode(value, validate=True) if name == _PACKED else _bytes(value)


def _text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
