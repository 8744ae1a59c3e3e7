"""The archive, models as a file: gzip over lines of JSON, one record a line, read and written as a stream.

A copy of Redis's own file has all of its databases, fits one version of the server, and goes into no cluster. An
archive has models alone, from and for any server.

Rules: the first line of each model says which program wrote the file, and how many models follow; the last one has
the number of lines before it and their SHA-256, which shows whether the file is complete and undamaged. Reader and
writer have only one line in memory at a time. A later line about the same token or message replaces an earlier
one; a count of 0 deletes the token, and a message without fields deletes the entry. Any bytes of a token come back
as they were (UTF-8 with ``surrogateescape``).

    {"format": "nbstream model", "model": "common", "following": 0, "nbstream": "1.0",
     "signature": {"format": "1", ...}}
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
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import IO, Any, NamedTuple, TypeAlias

from nbstream import __version__
from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.columns import is_column
from nbstream.bayes.counts import is_sum
from nbstream.bayes.lesson_weight import MAX_ENTRY_WEIGHT
from nbstream.bayes.novelty import NOVELTY_SUMS
from nbstream.errors import InputError, StoreIncompatible
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.signature import difference
from nbstream.tokens.tokens import MAX_TOKEN_BYTES

COMMON = "common"
"""The name of the common model in a file."""

OWN_PREFIX = "own/"
"""What the name of an own model begins with in a file."""

_FORMAT_NAME = "nbstream model"
_GZIP_LEVEL = 6
# The longest line of an export is a group of lessons, with 6,000 counts of 90 bytes. A line that is parsed
# takes 25 times its size in memory.
_MAX_LINE_BYTES = 2 << 20
_MAX_EXACT_COUNT = 2**53  # Lua's numbers hold integers up to here
_MAX_SHOWN_CHARACTERS = 100
_PACKED_FIELD = "tokens"  # the only field of a ledger entry that is not text
_STREAM_ID = re.compile(rb"[0-9]{1,19}-[0-9]{1,19}")
_MESSAGE_KEY = re.compile(r"[0-9A-Za-z_.-]{1,100}")
_MAX_CLOCK_LEAD_SECONDS = 86_400.0  # by which the clock of the exporting machine may be ahead
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x1f\x7f]")
# The classes of a model, those that its settings had before, and what was learned automatically.
_MAX_COLUMNS = 64
_TOTALS_WITHOUT_COLUMN = frozenset({b"vocabulary", b"vocabulary:auto", b"generation"})
_MAX_NOVELTY = 10**9  # more than any sum of novelty that one message adds
_MOST_OF_ONE_MESSAGE = dict.fromkeys(SCORE_BINS, MAX_ENTRY_WEIGHT) | dict.fromkeys(NOVELTY_SUMS, _MAX_NOVELTY)


class _InvalidRecord(ValueError):
    """A record that no model has; the text says why, and has nothing of the file in it."""


class ArchiveHeader(NamedTuple):
    """The first line of an archive.

    ``nbstream`` is the version of the program that wrote the file, ``signature`` that of the model. ``model`` is
    the name of the model in the file, and ``following`` the number of models that come after it.
    """

    signature: Mapping[str, str]
    model: str = COMMON
    following: int = 0
    nbstream: str = __version__


class CountsRecord(NamedTuple):
    """Counts of some tokens and sums in one column."""

    column: str
    counts: Mapping[bytes, int]


class LedgerRecord(NamedTuple):
    """A message's ledger entry as the fields of its Redis hash; without fields the message has no entry.

    ``milliseconds`` is the lifetime that the entry has left, -1 for an entry that does not expire.
    """

    message_key: str
    fields: Mapping[bytes, bytes]
    milliseconds: int


class TotalsRecord(NamedTuple):
    """The fields of the Redis hash of totals."""

    fields: Mapping[bytes, int]


ArchiveRecord: TypeAlias = CountsRecord | LedgerRecord | TotalsRecord


class ArchiveWriter:
    """Writes one model to ``stream``, which stays open: the next one may follow."""

    def __init__(self, stream: IO[bytes], header: ArchiveHeader) -> None:
        self._gzip = gzip.GzipFile(filename="", mode="wb", compresslevel=_GZIP_LEVEL, fileobj=stream, mtime=0)
        self._digest = hashlib.sha256()
        self._lines = 0
        self._write_line(
            {
                "format": _FORMAT_NAME,
                "model": header.model,
                "following": header.following,
                "nbstream": header.nbstream,
                "signature": header.signature,
            }
        )

    def write(self, record: ArchiveRecord) -> None:
        """Append one record."""
        self._write_line(_pack_record(record))

    def finish(self) -> None:
        """Write the last line; a reader refuses a file without it as cut."""
        self._write_line({"lines": self._lines, "sha256": self._digest.hexdigest()})
        self._gzip.close()

    def _write_line(self, record: Mapping[str, Any]) -> None:
        line = _decode_bytes(json.dumps(record, ensure_ascii=False, separators=(",", ":"))) + b"\n"
        if len(line) > _MAX_LINE_BYTES:
            raise StoreIncompatible("the model has a record that is longer than any of nbstream")
        self._gzip.write(line)
        self._digest.update(line)
        self._lines += 1


class ArchiveReader:
    """Reads one model after the other: first ``header``, then the records by iteration, and ``next_model``.

    The content of a model is verified only when the iteration has ended without an error. Raises ``InputError``
    for a file that is not an archive, or cut or damaged, and ``StoreIncompatible`` for an archive of another
    format or of a model with another signature than ``signature``. ``clock`` returns seconds since the epoch; a
    time in the file that is more than a day later is refused with ``InputError``.
    """

    def __init__(
        self, stream: IO[bytes], name: str, signature: Mapping[str, str], clock: Callable[[], float] = time.time
    ) -> None:
        self._name = name
        self._signature = signature
        self._latest_time = clock() + _MAX_CLOCK_LEAD_SECONDS
        self._gzip = gzip.GzipFile(fileobj=stream, mode="rb")
        self._digest = hashlib.sha256()
        self._lines = 0
        self._first_line = 0
        self.header = self._next_header()

    def next_model(self) -> bool:
        """Go on to the header of the next model, and return whether there is one.

        The model before has to have been read to its end.
        """
        if not self.header.following:
            return False
        following = self.header.following
        self._digest, self._first_line = hashlib.sha256(), self._lines
        self.header = self._next_header()
        if self.header.following != following - 1:
            raise InputError(f"{self._name}: damaged in line {self._lines}")
        return True

    def _next_header(self) -> ArchiveHeader:
        value = self._next_value()
        if not isinstance(value, dict) or value.get("format") != _FORMAT_NAME:
            raise InputError(f"{self._name}: no model that nbstream has exported")
        return _read_header(self._name, value, self._signature)

    def __iter__(self) -> Iterator[ArchiveRecord]:
        columns: set[str] = set()
        while True:
            lines, digest = self._lines - self._first_line, self._digest.hexdigest()
            value = self._next_value()
            if isinstance(value, dict) and "sha256" in value:
                break
            try:
                record = _unpack_record(value)
                match record:
                    case LedgerRecord(fields=fields):
                        _check_entry(fields, self._latest_time)
                    case CountsRecord(column):
                        columns.add(column)
                        if len(columns) > _MAX_COLUMNS:  # each token would cost memory for each of them
                            raise _InvalidRecord("more classes than a model has")
            except (AttributeError, KeyError, TypeError, ValueError, StoreIncompatible) as error:
                reason = f": {error}" if isinstance(error, _InvalidRecord) else ""
                raise InputError(f"{self._name}: line {self._lines} is no record of a model{reason}") from error
            yield record
        is_whole = (value["sha256"], value.get("lines")) == (digest, lines)
        if not is_whole or (not self.header.following and self._read_line()):
            raise InputError(f"{self._name}: damaged: it does not match its own checksum")

    def _next_value(self) -> Any:
        line = self._read_line()
        if len(line) > _MAX_LINE_BYTES:
            raise InputError(f"{self._name}: line {self._lines + 1} is longer than any that nbstream has exported")
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
            return self._gzip.readline(_MAX_LINE_BYTES + 1)
        except (OSError, EOFError, zlib.error) as error:  # OSError is also what gzip raises for a wrong checksum
            problem = "cut or damaged" if self._lines else "no model that nbstream has exported"
            raise InputError(f"{self._name}: {problem} ({error})") from error


def _read_header(name: str, line: Mapping[str, Any], signature: Mapping[str, str]) -> ArchiveHeader:
    stored = line.get("signature")
    theirs = {field: _shown(value) for field, value in stored.items()} if isinstance(stored, dict) else {}
    if theirs.keys() != signature.keys():
        raise InputError(f"{name}: no model that this nbstream can read")
    if found := difference(theirs, signature):
        raise StoreIncompatible(
            f"{name} has {found}: nothing was imported; import it with the nbstream and the key that wrote it"
        )
    model, following = line.get("model"), line.get("following")
    if not isinstance(model, str) or type(following) is not int or following < 0:
        raise InputError(f"{name}: does not say which model it is")
    return ArchiveHeader(
        nbstream=_shown(line.get("nbstream")),
        signature=theirs,
        model=model,
        following=following,
    )


def _shown(value: object) -> str:
    """Return a value of the file as it may be shown on a terminal, whoever wrote the file."""
    text = str(value)[:_MAX_SHOWN_CHARACTERS]
    return text if text.isprintable() else "".join(c if c.isprintable() else "?" for c in text)


def _pack_record(record: ArchiveRecord) -> Mapping[str, Any]:
    match record:
        case CountsRecord(column, counts):
            return {"counts": column, "of": {_encode_text(name): count for name, count in counts.items()}}
        case LedgerRecord(message_key, fields, milliseconds):
            packed = {_encode_text(name): _pack_field(_encode_text(name), value) for name, value in fields.items()}
            return {"message": message_key, "milliseconds": milliseconds, "fields": packed}
        case TotalsRecord(fields):
            return {"totals": {_encode_text(name): value for name, value in fields.items()}}


def _unpack_record(line: Mapping[str, Any]) -> ArchiveRecord:
    """Return the record of a line.

    Raises ``AttributeError``, ``KeyError``, ``TypeError``, ``ValueError`` or ``StoreIncompatible`` for a line that
    is not a record.
    """
    if "counts" in line:
        if not is_column(line["counts"]):
            raise ValueError(line["counts"])
        return CountsRecord(line["counts"], _read_counts(line["of"]))
    if "message" in line:
        if not _MESSAGE_KEY.fullmatch(line["message"]):
            raise ValueError(line["message"])
        fields = {_decode_bytes(name): _unpack_field(name, value) for name, value in line["fields"].items()}
        return LedgerRecord(line["message"], fields, _read_count(line["milliseconds"]))
    return TotalsRecord(_read_totals(line["totals"]))


def _check_entry(fields: Mapping[bytes, bytes], latest_time: float) -> None:
    """Raise ``ValueError`` or ``StoreIncompatible`` if these are not the fields of a ledger entry, or none at all.

    A weight is at most that of a message that people have reinforced, and so is the count of its prequential
    score. Nothing was learned after ``latest_time``. The script that unlearns will one day get the content of the
    entry, and it must not fail half way.
    """
    entry = LedgerEntry.unpack(fields)
    if entry is None:
        return
    if not _STREAM_ID.fullmatch(entry.change):
        raise ValueError(entry.change)
    # int() and float() read more than what Redis and Lua read as numbers, such as "5_0".
    stored = {
        name.encode(): value if isinstance(value, bytes) else value.encode()
        for name, value in entry.pack().items()
    }
    if {**fields, b"tokens": b""} != {**stored, b"tokens": b"", b"change": entry.change}:
        raise _InvalidRecord("fields of another program")
    if not (0 <= entry.learned_at <= latest_time and math.isfinite(entry.score)):
        raise _InvalidRecord("no time of a lesson, or no score")
    for name, amount in entry.sums:
        _read_count(amount)
        if name in _MOST_OF_ONE_MESSAGE and not 0 <= amount <= _MOST_OF_ONE_MESSAGE[name]:
            raise _InvalidRecord("no count of one check")
    if not 0 <= _read_count(entry.weight) <= MAX_ENTRY_WEIGHT:
        raise _InvalidRecord("no weight of one message")
    names = [*entry.tokens, *(name for name, _ in entry.sums)]
    if len(set(names)) < len(names):  # the script subtracts each of them once
        raise _InvalidRecord("a token or a sum twice")
    _check_names(names)


def _check_names(names: Iterable[bytes]) -> None:
    """Raise ``ValueError`` if one of these is not the name of a token or a sum."""
    for name in names:
        if not name or _CONTROL_CHARACTER.search(name):  # the scripts get tokens line by line
            raise _InvalidRecord("no name of a token or a sum")
        if len(name) > MAX_TOKEN_BYTES and not is_sum(name):
            raise _InvalidRecord("longer than a token")


def _read_counts(counts: Mapping[str, Any]) -> dict[bytes, int]:
    """Return counts by name. They may be below zero: unlearning what was partly forgotten leaves such counts."""
    checked = {_decode_bytes(name): _read_count(count) for name, count in counts.items()}
    _check_names(checked)
    return checked


def _read_totals(totals: Mapping[str, Any]) -> dict[bytes, int]:
    """Return the totals by name.

    Messages are counted with their ledger entry, and tokens of the vocabulary have a count above zero: neither
    number can be below zero. The total of the tokens of a class can, as their counts can.
    """
    checked = _read_counts(totals)
    if len(checked) > 2 * _MAX_COLUMNS + len(_TOTALS_WITHOUT_COLUMN):
        raise _InvalidRecord("more classes than a model has")
    for name, total in checked.items():
        what, _, column = name.decode("utf-8", "replace").partition(":")
        if name not in _TOTALS_WITHOUT_COLUMN and not (what in {"messages", "tokens"} and is_column(column)):
            raise _InvalidRecord("a total that no model has")
        if total < 0 and what != "tokens":
            raise _InvalidRecord("fewer messages or tokens than none")
    return checked


def _read_count(value: Any) -> int:
    if type(value) is not int or not -_MAX_EXACT_COUNT < value < _MAX_EXACT_COUNT:
        raise _InvalidRecord("no whole number, or too large")
    return value


def _pack_field(name: str, value: bytes) -> str:
    return base64.b64encode(value).decode() if name == _PACKED_FIELD else _encode_text(value)


def _unpack_field(name: str, value: str) -> bytes:
    return base64.b64decode(value, validate=True) if name == _PACKED_FIELD else _decode_bytes(value)


def _encode_text(value: bytes) -> str:
    return value.decode("utf-8", "surrogateescape")


def _decode_bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
