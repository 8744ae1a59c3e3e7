"""The keys and arguments of the script that commits lessons (``learn.lua``), and its reply."""

from __future__ import annotations

import secrets
import struct
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.store.model import history, ledger

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.model.retention import RetentionLimits

MAX_BATCH_LESSONS = 64
"""How many lessons the script commits in one step at most."""

MAX_BATCH_COUNTS = 6_000
"""How many counts several lessons of one step may change: Redis does nothing else meanwhile, for 10 ms or so.

One lesson may change more, as one message may have more tokens.
"""

_ARRAY_HEADER = struct.Struct(">BI")  # of an array of MessagePack: its type and its length
_ARRAY_TYPE = 0xDD
_INTEGER_TYPE = 0xD3
_INTEGER = np.dtype([("type", "u1"), ("value", ">i8")])

ScriptArguments: TypeAlias = "list[str | bytes | int]"
"""The arguments of the script."""


@dataclass(frozen=True, slots=True)
class LessonCommit:
    """One lesson: the message's ledger entry ``old`` is replaced by ``new``; None stands for no entry.

    ``note`` goes into the history. ``attempt`` identifies this commit there if it removes an entry; a new entry
    has its version.
    """

    message_key: str
    old: ledger.LedgerEntry | None
    new: ledger.LedgerEntry | None
    note: LessonNote
    attempt: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)


@dataclass(frozen=True, slots=True)
class PackedLesson:
    """A lesson, and its names and values in turn as they are stored: of the record and of the new ledger entry."""

    commit: LessonCommit
    note_fields: Sequence[str | bytes]
    entry_fields: Sequence[str | bytes]

    @classmethod
    def pack(cls, commit: LessonCommit) -> PackedLesson:
        """Pack a lesson once, however often it is sent and wherever it is recorded."""
        new = commit.new
        entry_fields = [item for field in new.pack().items() for item in field] if new else []
        note_fields = history.history_fields(new, commit.note, commit.attempt)
        return cls(commit, note_fields, entry_fields)


class LearnScriptKeys(NamedTuple):
    """The keys that ``learn.lua`` unpacks by name, in its order.

    The keys of the classes and those of the ledger entries follow them.
    """

    totals_key: str
    changes_key: str
    sequence_key: str
    history_key: str


class LearnScriptArguments(NamedTuple):
    """The arguments that ``learn.lua`` unpacks by name, in its order; the script says what each of them means.

    The ``ClassArguments`` of each class follow them, then for each lesson its ``LessonArguments``, the fields of
    the history's record and those of the new ledger entry.
    """

    names: bytes
    token_count: int
    max_changes: int
    max_history_records: int
    max_first_scores: int
    ledger_seconds: int
    class_count: int
    lesson_count: int


class ClassArguments(NamedTuple):
    """The arguments of one class, in the order of ``learn.lua``."""

    additions: bytes
    messages: int
    weight: int


class LessonArguments(NamedTuple):
    """The arguments of one lesson, in the order of ``learn.lua``."""

    expected_version: str
    old_column: int
    old_first_score: bytes
    new_column: int
    new_first_score: bytes
    history_length: int
    entry_length: int


class _ClassSum:
    """What several lessons add to one class: ``entries`` are added (sign 1) or taken back (sign -1)."""

    def __init__(self) -> None:
        self.entries: list[tuple[int, ledger.LedgerEntry]] = []
        self.tokens: dict[bytes, None] = {}
        self.messages = 0
        self.weight = 0

    def add(self, sign: int, entry: ledger.LedgerEntry) -> None:
        """Add an entry, or take it back."""
        self.entries.append((sign, entry))
        self.messages += sign
        self.weight += sign * entry.weight * len(entry.tokens)
        if entry.weight:
            self.tokens.update(dict.fromkeys(entry.tokens))

    @property
    def sums(self) -> Iterator[bytes]:
        """The names of the sums, each as often as it occurs."""
        return (name for _, entry in self.entries for name, _ in entry.sums)

    def additions(self, index_of: Mapping[bytes, int]) -> bytes:
        """What is added to the count of each name, as the script reads it; ``index_of`` has all names in order."""
        if not self.tokens and not any(entry.sums for _, entry in self.entries):
            return b""
        integers = np.zeros(len(index_of), dtype=_INTEGER)
        integers["type"] = _INTEGER_TYPE
        amounts = np.zeros(len(index_of), dtype=np.int64)
        for sign, entry in self.entries:
            if entry.weight:
                size = len(entry.tokens)
                rows = np.fromiter(map(index_of.__getitem__, entry.tokens), dtype=np.intp, count=size)
                amounts[rows] += sign * entry.weight  # the tokens of an entry are distinct
            for name, amount in entry.sums:
                amounts[index_of[name]] += sign * amount
        integers["value"] = amounts
        return _ARRAY_HEADER.pack(_ARRAY_TYPE, len(index_of)) + integers.tobytes()


class LessonBatch:
    """Lessons of distinct messages that one step commits, and the sum of what they add to the counts."""

    def __init__(self, lessons: Iterable[PackedLesson] = ()) -> None:
        self.lessons: list[PackedLesson] = []
        self._sums = [_ClassSum() for _ in CLASSES]
        for lesson in lessons:
            self.add(lesson)

    def add(self, lesson: PackedLesson) -> None:
        """Add one more lesson."""
        self.lessons.append(lesson)
        if old := lesson.commit.old:
            self._sums[CLASSES.index(old.label)].add(-1, old)
        if new := lesson.commit.new:
            self._sums[CLASSES.index(new.label)].add(1, new)

    def has_room(self, lesson: PackedLesson) -> bool:
        """Whether one more lesson stays within the limits of one step."""
        counts = sum(len(entry.tokens) for entry in (lesson.commit.old, lesson.commit.new) if entry)
        counts += sum(len(class_sum.tokens) for class_sum in self._sums)
        return len(self.lessons) < MAX_BATCH_LESSONS and counts <= MAX_BATCH_COUNTS

    def pack_keys(self, keys: ModelKeys) -> list[str]:
        """The keys of the script."""
        named = LearnScriptKeys(
            totals_key=keys.totals,
            changes_key=keys.changes,
            sequence_key=keys.sequence,
            history_key=keys.history,
        )
        entry_keys = [keys.ledger(lesson.commit.message_key) for lesson in self.lessons]
        return [*named, *keys.counts, *keys.first_scores, *entry_keys]

    def pack_arguments(self, limits: RetentionLimits) -> ScriptArguments:
        """The arguments of the script."""
        tokens = dict.fromkeys(chain.from_iterable(class_sum.tokens for class_sum in self._sums))
        names = (*tokens, *dict.fromkeys(chain.from_iterable(class_sum.sums for class_sum in self._sums)))
        index_of = dict(zip(names, range(len(names)), strict=True))
        arguments: ScriptArguments = [
            *LearnScriptArguments(
                names=ledger.join_tokens(names),
                token_count=len(tokens),
                max_changes=limits.max_changes,
                max_history_records=limits.max_history_records,
                max_first_scores=limits.max_first_scores,
                ledger_seconds=limits.ledger_seconds,
                class_count=len(CLASSES),
                lesson_count=len(self.lessons),
            )
        ]
        for class_sum in self._sums:
            arguments += ClassArguments(class_sum.additions(index_of), class_sum.messages, class_sum.weight)
        for lesson in self.lessons:
            arguments += _lesson_arguments(lesson)
            arguments += lesson.note_fields
            arguments += lesson.entry_fields
        return arguments


def split_batches(lessons: Iterable[PackedLesson]) -> Iterator[LessonBatch]:
    """Yield the lessons in order, in batches of as many as one step may commit."""
    batch = LessonBatch()
    for lesson in lessons:
        if batch.lessons and not batch.has_room(lesson):
            yield batch
            batch = LessonBatch()
        batch.add(lesson)
    if batch.lessons:
        yield batch


def unpack_reply(reply: bytes | list[bytes]) -> bytes | ledger.LedgerConflict:
    """The stream id of the change, or what the ledger holds instead of the expected entry.

    Raises ``StoreIncompatible`` where that entry cannot be read, and ``StoreUnavailable`` for what is no reply of
    the script: it is not known then whether the lesson was taken, and nothing odd gets into the journal.
    """
    if isinstance(reply, bytes) and history.is_stream_id(reply):
        return reply
    if not isinstance(reply, list) or len(reply) % 2:
        raise StoreUnavailable("Redis: the answer to a lesson cannot be read")
    return ledger.LedgerConflict(ledger.LedgerEntry.unpack(dict(zip(reply[0::2], reply[1::2], strict=True))))


def _lesson_arguments(lesson: PackedLesson) -> LessonArguments:
    old, new = lesson.commit.old, lesson.commit.new
    return LessonArguments(
        expected_version=old.version if old else "",
        old_column=_column(old),
        old_first_score=old.first_score if old else b"",
        new_column=_column(new),
        new_first_score=new.first_score if new else b"",
        history_length=len(lesson.note_fields),
        entry_length=len(lesson.entry_fields),
    )


def _column(entry: ledger.LedgerEntry | None) -> int:
    """The class of an entry as a column of the script: 1 is the first class, 0 stands for no entry."""
    return 0 if entry is None else CLASSES.index(entry.label) + 1
