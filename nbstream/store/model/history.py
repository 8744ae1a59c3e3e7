"""The history: what was learned, when, by whom, and what it did, so that it can be shown and undone.

Rules: a record is written by the same script as the change that it describes, so neither exists without the other;
it keeps the whole entry that was replaced, so that exactly that entry can be put back. The history is trimmed to a
number of records, the oldest first. The
last changes may be kept in memory: whoever looks again reads only what is new.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nbstream.bayes.columns import is_automatic, kind_of, label_of
from nbstream.errors import StoreIncompatible
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping, Sequence

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


UNDO_SOURCE = "undo"
"""The source with which the history notes that changes were undone."""

_Entry: TypeAlias = "tuple[bytes, Mapping[bytes, bytes]]"

_FORMER_PREFIX = b"former:"
_STREAM_ID = re.compile(rb"[0-9]{1,20}-[0-9]{1,20}")
_BATCH = 500  # records
_RECENT_RECORDS = 200  # some 200 kB
_SEARCHED_RECORDS = 1000  # for one message: of all the newest ones, and of those around each known lesson
_CHANGE_MILLISECONDS = 2000  # a record is written after the change it describes, by the same script


class Assessment(NamedTuple):
    """P(spam) of a message and its verdict, at some moment."""

    probability: float
    verdict: str

    def pack(self) -> str:
        """The assessment as it is stored."""
        return f"{self.probability!r} {self.verdict}"

    @classmethod
    def unpack(cls, stored: bytes) -> Assessment:
        """What ``pack`` packed; raises ``ValueError`` for anything else."""
        number, _, verdict = stored.decode().partition(" ")
        probability = float(number)
        if not 0 <= probability <= 1:
            raise ValueError("no probability")
        return cls(probability, verdict)


class LessonNote(NamedTuple):
    """Who changed something through which listener or command, and the message's check before and after.

    ``after`` is computed from the counts before the change and the change itself, without lessons of others at the
    same moment.
    """

    source: str
    actor: str
    before: Assessment
    after: Assessment


@dataclass(frozen=True, kw_only=True, slots=True)
class HistoryChange:
    """One change of what one message is learned as, without the tokens: 500 bytes in memory.

    ``id`` is the stream id of its record in the history, ``at`` its time in seconds since the epoch. ``label`` and
    ``version`` are those of the entry that the change wrote, None where it left no entry; ``former_label`` and
    ``former_version`` those of the entry that was there before. Where that was learned without people and a person
    gave a label, ``former_label`` is None. ``kind`` and ``former_kind`` are the kinds of
    these entries, empty for none.
    """

    id: bytes
    at: float
    message_key: str
    label: str | None
    version: str | None
    former_label: str | None
    former_version: str | None
    note: LessonNote
    kind: str = field(default="", kw_only=True)
    former_kind: str = field(default="", kw_only=True)

    @property
    def class_name(self) -> str | None:
        """The name of the class that was learned, None where nothing was."""
        return self.kind or self.label

    @property
    def former_class_name(self) -> str | None:
        """The name of the class of the entry that was there before, None where there was none."""
        return self.former_kind or self.former_label

    @property
    def description(self) -> str:
        """The change in words.

        It is ``learned spam``, ``relearned ham -> spam``, ``reinforced spam``, ``weight of spam put back``
        (an undo of a reinforced label, or of such an undo) or ``unlearned spam``.
        """
        name, former_name = self.class_name, self.former_class_name
        if former_name is None:
            return f"learned {name}"
        if former_name == name:
            is_undo = self.note.source == UNDO_SOURCE
            return f"weight of {name} put back" if is_undo else f"reinforced {name}"
        return f"relearned {former_name} -> {name}" if name else f"unlearned {former_name}"


@dataclass(frozen=True, slots=True)
class HistoryRecord(HistoryChange):
    """A change with the whole entry that it replaced, ``former``; None where there was none."""

    former: LedgerEntry | None


@dataclass(frozen=True, slots=True)
class HistorySelection:
    """Which changes to select; None in ``until``, ``actor``, ``label``, ``message_key`` or ``source`` selects any.

    ``since`` (inclusive) and ``until`` (exclusive) are seconds since the epoch. ``label`` is the label or the kind
    that was learned, or, where nothing was learned, that was unlearned.
    """

    since: float = 0.0
    until: float | None = None
    actor: str | None = None
    label: str | None = None
    message_key: str | None = None
    source: str | None = None

    def __contains__(self, change: HistoryChange) -> bool:
        return (
            self.since <= change.at
            and (self.until is None or change.at < self.until)
            and self.actor in {None, change.note.actor}
            and self.label in {None, *_class_names(change)}
            and self.message_key in {None, change.message_key}
            and self.source in {None, change.note.source}
        )


def _class_names(change: HistoryChange) -> tuple[str | None, str]:
    """Return the label and the kind by which a change is found."""
    return (change.label, change.kind) if change.label else (change.former_label, change.former_kind)


class History:
    """The history of one model. Its methods raise ``StoreIncompatible`` and ``StoreUnavailable``."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._key = keys.history

    async def records(self, since: float = 0.0) -> AsyncIterator[HistoryRecord]:
        """The records since that time (seconds since the epoch), newest first."""
        async for record_id, fields in self._newest_entries(since):
            yield read_record(record_id, fields)

    async def changes(self, since: float = 0.0, batch: int = _BATCH) -> AsyncIterator[HistoryChange]:
        """The changes since that time (seconds since the epoch), newest first; no entry is unpacked.

        So many of them are read in one round trip.
        """
        async for record_id, fields in self._newest_entries(since, batch):
            yield read_change(record_id, fields)

    def _newest_entries(self, since: float, batch: int = _BATCH) -> AsyncIterator[_Entry]:
        return _entries(self._client.xrevrange, self._key, b"+", b"%d" % max(0, round(since * 1000)), batch)

    async def has_removal(self, attempt: str) -> bool:
        """Whether one of the newest records is of the removal that ``Lesson.attempt`` identifies.

        A removal that was repeated after a lost reply is among them, unless hundreds of lessons came in between.
        """
        with store_errors():
            entries: Any = await self._client.xrevrange(self._key, count=_RECENT_RECORDS)
        return any(fields.get(b"attempt") == attempt.encode() for _, fields in entries)

    async def of_message(
        self, message_key: str, entry: LedgerEntry | None, limit: int = 20
    ) -> Sequence[HistoryRecord]:
        """At most ``limit`` records of one message, newest first; ``entry`` is its ledger entry.

        The history is not read as a whole: an entry says when it was written, and each record has the entry before
        it. Where there was none, the message may have been unlearned: the 1,000 records before are searched, once.
        Where a record is missing, those before it are missing too.
        """
        records: list[HistoryRecord] = []
        end, is_searched = b"+", False
        while len(records) < limit:
            if entry:
                record = await self._record_of(message_key, entry)
                found = [record] if record else []
            elif not is_searched:
                is_searched = True
                entries = _entries(self._client.xrevrange, self._key, end, b"-")
                found = [record async for record in _records_among(entries, message_key)]
            else:
                break
            if not found:
                break
            records += found
            entry, end = found[-1].former, b"(" + found[-1].id
        return records[:limit]

    async def _record_of(self, message_key: str, entry: LedgerEntry) -> HistoryRecord | None:
        """The record of the change that wrote this entry."""
        if not is_stream_id(entry.change):
            return None
        written = id_milliseconds(entry.change)
        # The oldest first: a bulk run writes thousands of records within the time in which this one may be.
        last = written + _CHANGE_MILLISECONDS
        entries = _entries(self._client.xrange, self._key, b"%d" % written, b"%d" % last)
        async for record in _records_among(entries, message_key):
            if record.version == entry.version:
                return record
        return None

    async def record(self, record_id: bytes) -> HistoryRecord | None:
        """The record of that ``id``, or None where it has been trimmed."""
        with store_errors():
            entries: Any = await self._client.xrange(self._key, record_id, record_id)
        return read_record(*entries[0]) if entries else None


async def _entries(
    read: Callable[..., Any], key: str, first: bytes, last: bytes, batch: int = _BATCH
) -> AsyncIterator[_Entry]:
    """The entries of a stream from ``first`` to ``last``, in the order of ``read``: XRANGE or XREVRANGE."""
    while True:
        with store_errors():
            entries: Any = await read(key, first, last, count=batch)
        for entry in entries:
            yield entry
        if len(entries) < batch:
            return
        first = b"(" + entries[-1][0]


async def _records_among(entries: AsyncIterator[_Entry], message_key: str) -> AsyncIterator[HistoryRecord]:
    """The records of the message among the first 1,000 entries."""
    searched = 0
    async for record_id, fields in entries:
        if fields.get(b"id") == message_key.encode():
            yield read_record(record_id, fields)
        searched += 1
        if searched == _SEARCHED_RECORDS:
            return


def history_fields(new: LedgerEntry | None, note: LessonNote, attempt: str) -> list[str]:
    """The names and values in turn that a record has beside its message and the former entry.

    ``attempt`` is only in the record of a removal, and only ``has_removal`` reads it.
    """
    return [
        *("label", new.column if new else "", "version", new.version if new else ""),
        *("source", note.source, "actor", note.actor),
        *("before", note.before.pack(), "after", note.after.pack()),
        *(() if new else ("attempt", attempt)),
    ]


def read_note(fields: Mapping[bytes, bytes]) -> LessonNote:
    """The note in the fields that ``history_fields`` made; raises ``StoreIncompatible`` for other ones."""
    try:
        return LessonNote(
            fields[b"source"].decode(),
            fields[b"actor"].decode(),
            Assessment.unpack(fields[b"before"]),
            Assessment.unpack(fields[b"after"]),
        )
    except (KeyError, ValueError) as error:
        raise _unreadable_record() from error


def is_stream_id(value: bytes) -> bool:
    """Whether the value is a stream id as Redis writes it."""
    return _STREAM_ID.fullmatch(value) is not None


def id_milliseconds(stream_id: bytes) -> int:
    """The time in a stream id, in milliseconds since the epoch by the clock of Redis."""
    return int(stream_id.partition(b"-")[0])


def _unreadable_record() -> StoreIncompatible:
    return StoreIncompatible("a record of the history cannot be read: another program wrote it")


def read_change(record_id: bytes, fields: Mapping[bytes, bytes]) -> HistoryChange:
    """The change in the fields of a stream entry. Raises ``StoreIncompatible`` for those of another program."""
    try:
        return HistoryChange(**_change_values(record_id, fields))
    except (KeyError, ValueError) as error:
        raise _unreadable_record() from error


def read_record(record_id: bytes, fields: Mapping[bytes, bytes]) -> HistoryRecord:
    """The record in the fields of a stream entry. Raises ``StoreIncompatible`` for those of another program."""
    former = {
        name.removeprefix(_FORMER_PREFIX): value
        for name, value in fields.items()
        if name.startswith(_FORMER_PREFIX)
    }
    try:
        return HistoryRecord(**_change_values(record_id, fields), former=LedgerEntry.unpack(former))
    except (KeyError, ValueError) as error:
        raise _unreadable_record() from error


def _change_values(record_id: bytes, fields: Mapping[bytes, bytes]) -> dict[str, Any]:
    column, former = fields[b"label"].decode(), fields.get(_FORMER_PREFIX + b"label", b"").decode()
    return {
        "id": record_id,
        "at": id_milliseconds(record_id) / 1000,
        "message_key": fields[b"id"].decode(),
        "label": label_of(column) if column else None,
        "version": fields[b"version"].decode() or None,
        "former_label": None if not former or (is_automatic(former) and column) else label_of(former),
        "former_version": fields.get(_FORMER_PREFIX + b"version", b"").decode() or None,
        "note": read_note(fields),
        "kind": kind_of(column) if column else "",
        "former_kind": kind_of(former) if former else "",
    }


MAX_RECENT_CHANGES = 10_000
"""So many changes are kept: some 6 MB, read for the first time in a fifth of a second."""

_RECENT_BATCH = 100  # changes in one round trip: other work goes on after each


class RecentChanges:
    """The last ``limit`` changes of a history. Each process has its own."""

    def __init__(self, history: History, limit: int = MAX_RECENT_CHANGES) -> None:
        self._history = history
        self._limit = limit
        self._known: tuple[HistoryChange, ...] = ()
        self._reading = asyncio.Lock()

    @property
    def limit(self) -> int:
        """How many changes there are at most."""
        return self._limit

    async def read(self) -> Sequence[HistoryChange]:
        """Return the changes as they are now, newest first. Raises ``StoreUnavailable`` and ``StoreIncompatible``.

        What is known is read again where the history has gone another way, as after a failover.
        """
        async with self._reading:
            fresh: list[HistoryChange] = []
            known: Sequence[HistoryChange] = ()
            async for change in self._history.changes(batch=_RECENT_BATCH):
                if self._known and change.id == self._known[0].id:
                    known = self._known
                    break
                fresh.append(change)
                if len(fresh) >= self._limit:
                    break
            if fresh or not known:
                self._known = (*fresh, *known[: self._limit - len(fresh)])
            return self._known
