"""Lessons as ``learn.lua`` gets them: its keys, arguments and reply, and the change that it writes.

A change in the change stream says what one lesson, or several that were committed together, did to the counts. Its
fields:

- ``sequence``: its number. The number of the change before it is smaller by the lessons of this one.
- ``lessons``: how many lessons it has; absent for one.
- ``totals``: the names and values of all totals in turn, separated by spaces.
- ``names``: the tokens whose counts changed, packed as in a ledger entry.
- ``sums``: the sums that changed, separated by line feeds; absent in an eviction.
- ``counts:`` and a column: the resulting counts of that column, of the tokens and then of the sums, separated by
  spaces; absent where none of them changed.
- ``messages``: the keys of the messages of its lessons, separated by spaces; absent in an eviction.
- what happened to prequential scores; see ``PrequentialScores.apply_change``.
- ``predecessor``: the stream id of the change before it, ``0-0`` for the first one.
- ``model``: the name of the model, where several share the stream and its numbers; absent where they do not.
"""

from __future__ import annotations

import secrets
import struct
from collections import defaultdict
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, count
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.bayes.columns import CLASSES, automatic_columns, kind_of
from nbstream.bayes.counts import Totals
from nbstream.engine.name_numbers import NameNumbers
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.numpy_on_demand import np
from nbstream.store.compression import compress
from nbstream.store.model import history, ledger
from nbstream.store.model.keys import RetentionLimits
from nbstream.tokens.tokens import TokenList, join_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.keys import ModelKeys


MAX_BATCH_LESSONS = 64
"""How many lessons the script commits in one step at most."""

MAX_BATCH_COUNTS = 6_000
"""How many counts several lessons of one step may change: Redis does nothing else meanwhile, for 10 ms or so.

One lesson may change more, as one message may have more tokens.
"""

_ARRAY_HEADER = struct.Struct(">BI")  # of an array of MessagePack: its type and its length
_ARRAY_TYPE = 0xDD
_INTEGER_TYPE = 0xD3
_INTEGER = "u1, >i8"  # its type and its value
_COUNTS = b"counts:"

ScriptArguments: TypeAlias = "list[str | bytes | int]"
"""The arguments of the script."""


@dataclass(frozen=True)
class Lesson:
    """One lesson: the message's ledger entry ``old`` is replaced by ``new``; None stands for no entry.

    ``note`` goes into the history, which is that of people: what is learned automatically has no record there.
    ``attempt`` identifies this commit there if it removes an entry; a new entry has its version. A lesson is
    packed once, however often it is sent.
    """

    message_key: str
    old: ledger.LedgerEntry | None
    new: ledger.LedgerEntry | None
    note: LessonNote

    @cached_property
    def attempt(self) -> str:
        """What identifies this commit."""
        return secrets.token_hex(8)

    @cached_property
    def note_fields(self) -> Sequence[str | bytes]:
        """The names and values of the history's record in turn, as they are stored; empty where there is none."""
        if self.new and self.new.is_automatic and not ledger.entry_of_people(self.old):
            return ()
        return history.history_fields(self.new, self.note, "" if self.new else self.attempt)

    @cached_property
    def packed_entry(self) -> Mapping[str, str | bytes]:
        """The fields of the new ledger entry as they are stored; empty for no entry."""
        return self.new.pack() if self.new else {}


class _ColumnSum:
    """What several lessons add to one column.

    ``token_additions`` and ``sum_additions`` are the numbers of names, and what is added to the count of each.
    """

    def __init__(self) -> None:
        self.token_additions: list[tuple[NDArray[np.int64], int]] = []
        self.sum_additions: list[tuple[int, int]] = []
        self.messages = 0
        self.weight = 0

    def additions(self, token_count: int, name_count: int) -> bytes:
        """What is added to the count of each name, as the script reads it; empty where nothing is added."""
        if not self.token_additions and not self.sum_additions:
            return b""
        amounts = np.zeros(name_count, dtype=np.int64)
        for numbers, amount in self.token_additions:
            amounts[numbers] += amount  # the tokens of one entry are distinct
        for number, amount in self.sum_additions:
            amounts[token_count + number] += amount
        integers = np.empty(name_count, dtype=_INTEGER)
        integers["f0"] = _INTEGER_TYPE
        integers["f1"] = amounts
        return _ARRAY_HEADER.pack(_ARRAY_TYPE, name_count) + integers.tobytes()


class LessonBatch:
    """Lessons of distinct messages that one step commits, and the sum of what they add to the counts.

    ``make_numbers`` makes what numbers the tokens.
    """

    def __init__(
        self, lessons: Iterable[Lesson] = (), make_numbers: Callable[[], NameNumbers] = NameNumbers
    ) -> None:
        self.lessons: list[Lesson] = []
        self._token_numbers = make_numbers()
        self._sum_numbers = defaultdict[bytes, int](count().__next__)  # each new name gets the next number
        self._column_sums: dict[str, _ColumnSum] = {}
        for lesson in lessons:
            self.add(lesson)

    def add(self, lesson: Lesson) -> None:
        """Add one more lesson; ask ``has_room`` before."""
        self.lessons.append(lesson)
        if lesson.old:
            self._add_entry(lesson.old, -1)
        if lesson.new:
            self._add_entry(lesson.new, 1)

    def _add_entry(self, entry: ledger.LedgerEntry, sign: int) -> None:
        """Add an entry (sign 1), or take it back (sign -1)."""
        if entry.column not in self._column_sums:
            self._column_sums[entry.column] = _ColumnSum()
        column_sum, size = self._column_sums[entry.column], len(entry.tokens)
        column_sum.messages += sign
        column_sum.weight += sign * entry.weight * size
        if entry.weight:
            numbers = self._token_numbers.number(join_tokens(entry.tokens), size)
            column_sum.token_additions.append((numbers, sign * entry.weight))
        for name, amount in entry.sums:
            column_sum.sum_additions.append((self._sum_numbers[name], sign * amount))

    def has_room(self, lesson: Lesson) -> bool:
        """Whether one more lesson stays within the limits of one step; the first one always does."""
        if not self.lessons:
            return True
        names = sum(len(entry.tokens) + len(entry.sums) for entry in (lesson.old, lesson.new) if entry)
        touched_columns = sum(1 for column_sum in self._column_sums.values() if column_sum.token_additions)
        counts = touched_columns * (len(self._token_numbers) + len(self._sum_numbers)) + names
        return len(self.lessons) < MAX_BATCH_LESSONS and counts <= MAX_BATCH_COUNTS

    def pack_keys(self, keys: ModelKeys) -> list[str]:
        """The keys of the script, in the order that it documents."""
        named = [
            keys.totals,
            keys.changes,
            keys.sequence,
            keys.history,
            keys.importing,
            *keys.prequential_scores,
        ]
        entry_keys = [keys.ledger(lesson.message_key) for lesson in self.lessons]
        return [*named, *map(keys.counts, self._column_sums), *entry_keys]

    def pack_arguments(self, limits: RetentionLimits) -> ScriptArguments:
        """The arguments of the script, in the order that it documents."""
        token_count = len(self._token_numbers)
        name_count = token_count + len(self._sum_numbers)
        tokens, sums = self._token_numbers.joined() if token_count else b"", b"\n".join(self._sum_numbers)
        names = b"\n".join(filter(None, (tokens, sums)))
        arguments: ScriptArguments = [
            names.replace(b"\n", b"\0") + b"\0" if names else b"",
            self._packed_tokens(tokens),
            sums,
            name_count,
            token_count,
            limits.max_changes,
            limits.max_history_records,
            limits.max_prequential_scores,
            limits.ledger_seconds,
            len(self._column_sums),
            len(self.lessons),
        ]
        for column, column_sum in self._column_sums.items():
            additions = column_sum.additions(token_count, name_count)
            arguments += [column, additions, column_sum.messages, column_sum.weight]
        for lesson in self.lessons:
            arguments += _lesson_arguments(lesson)
            arguments += lesson.note_fields
            arguments += chain.from_iterable(lesson.packed_entry.items())
        return arguments

    def _packed_tokens(self, tokens: bytes) -> str | bytes:
        """The ``tokens`` of all lessons, packed; those of one new entry alone are packed in it already."""
        first = self.lessons[0]
        is_packed = first.new and join_tokens(first.new.tokens) == tokens
        return first.packed_entry["tokens"] if is_packed else compress(tokens)


def unpack_reply(reply: Any, lesson_count: int) -> bytes | dict[int, ledger.LedgerConflict | StoreIncompatible]:
    """The stream id of the change, or by the numbers of the lessons that conflict, from 0, what the ledger holds.

    That is an error where it cannot be read. Raises ``StoreUnavailable`` for what is no reply of the script: it is
    not known then whether the lessons were taken, and nothing odd is taken for a stream id.
    """
    if isinstance(reply, bytes) and history.is_stream_id(reply):
        return reply
    try:
        conflicts = {number - 1: dict(zip(item[0::2], item[1::2], strict=True)) for number, item in reply}
        if conflicts and conflicts.keys() <= set(range(lesson_count)):
            return {number: _unpack_conflict(item) for number, item in conflicts.items()}
    except (TypeError, ValueError):
        pass
    raise StoreUnavailable("Redis: the answer to a lesson cannot be read")


def _unpack_conflict(fields: Mapping[bytes, bytes]) -> ledger.LedgerConflict | StoreIncompatible:
    try:
        return ledger.LedgerConflict(ledger.LedgerEntry.unpack(fields))
    except StoreIncompatible as error:
        return error


def _lesson_arguments(lesson: Lesson) -> ScriptArguments:
    old, new = lesson.old, lesson.new
    return [
        old.version if old else "",
        old.label if old else "",
        old.prequential_score if old else b"",
        new.label if new else "",
        new.prequential_score if new else b"",
        len(lesson.note_fields),
        2 * len(lesson.packed_entry),
    ]


def read_totals(fields: Mapping[bytes, bytes | int]) -> tuple[Totals, Totals]:
    """The totals of what people taught, and of what was learned without them, from the hash of all totals.

    A field that is missing is 0. Ham and spam are always there, and come first.
    """
    split = (field.decode().partition(":") for field in fields)
    kinds = sorted({column for what, _, column in split if what in {"messages", "tokens"} and kind_of(column)})
    generation = int(fields.get(b"generation", 0))
    people = _totals_of(fields, (*CLASSES, *kinds), b"vocabulary")
    return people, _totals_of(fields, automatic_columns(generation), b"vocabulary:auto")


def read_totals_in_turn(pairs: Sequence[bytes]) -> tuple[Totals, Totals]:
    """The same from names and values in turn, the form in which a script returns a hash."""
    return read_totals(dict(zip(pairs[0::2], pairs[1::2], strict=True)))


def _totals_of(fields: Mapping[bytes, bytes | int], columns: tuple[str, ...], vocabulary: bytes) -> Totals:
    return Totals(
        tuple(int(fields.get(f"messages:{column}".encode(), 0)) for column in columns),
        tuple(int(fields.get(f"tokens:{column}".encode(), 0)) for column in columns),
        int(fields.get(vocabulary, 0)),
        columns,
    )


def changed_counts(change: Mapping[bytes, bytes]) -> tuple[TokenList, list[tuple[str, NDArray[np.int64]]]]:
    """Return the names of a change, and each column of which it has counts with these counts.

    Raises ``KeyError`` or ``ValueError`` for a change that cannot be read.
    """
    tokens, sums = ledger.unpack_names(change[b"names"]), change.get(b"sums", b"")
    names = TokenList.from_joined(b"\n".join(filter(None, (tokens, sums))))
    return names, [
        (field.removeprefix(_COUNTS).decode(), np.fromstring(counts, dtype=np.int64, sep=" "))
        for field, counts in change.items()
        if names and field.startswith(_COUNTS)
    ]


def is_of_model(change: Mapping[bytes, bytes], name_in_changes: str) -> bool:
    """Return whether a change is one of the model that has this name in the stream, which it may share."""
    return change.get(b"model", b"").decode() in {"", name_in_changes}


def lesson_count(change: Mapping[bytes, bytes]) -> int:
    """Return how many lessons a change has. Raises ``ValueError`` for a change that cannot be read."""
    count = int(change.get(b"lessons", b"1"))
    if count < 1:
        raise ValueError("a change has at least one lesson")
    return count
