"""Class counts in memory: how often each token was learned in each class, with exact integer algebra.

A class is a column. The first two are ham and spam; those of the kinds of ham follow in the order in which they
come. A score knows ham and spam alone: ham is then the sum of all columns but that of spam.

Rules: counts are fixed-point integers (``WEIGHT_ONE`` is one occurrence at full weight). Subtracting undoes adding
exactly, whatever was done in between. Therefore nothing is ever clamped here: a count may be negative for a while,
when changes arrive out of order. A token is forgotten when all of its counts are zero.

Beside the tokens there are sums: the counters of the calibration. The name of a sum begins with ``SUM_PREFIX``.
Sums are added and subtracted like tokens, but each by its own amount, and they belong neither to the totals nor to
the vocabulary. No token can be mistaken for a sum: the name of a sum has no colon, and a token that begins with
the prefix has one (it was made from a header field whose name begins like that).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.columns import CLASSES
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.engine.table import Table

Sums: TypeAlias = "Sequence[tuple[bytes, int]]"
"""Distinct names of sums, each with the amount that a message adds to it."""

WEIGHT_ONE = 1000
"""The fixed-point count of one occurrence at full weight."""

MAX_COUNT = 2**52
"""The largest total or sum that learning may reach: half of 2^53, up to which Lua's numbers are exact integers."""

SUM_PREFIX = b"="
"""The first byte of the name of every sum."""

_ZERO_ROW = 0  # this row stays zero: it holds the counts of every unknown token
_INITIAL_CAPACITY = 64


@dataclass(frozen=True, slots=True)
class Totals:
    """The totals of a model, which normalise its counts.

    ``messages`` is the number of learned messages of each of the ``columns``, and ``token_weights`` the sum of the
    weights of all their tokens (fixed point). ``vocabulary_size`` is the number of distinct tokens with a count
    above zero in any of them.
    """

    messages: tuple[int, ...] = (0,) * len(CLASSES)
    token_weights: tuple[int, ...] = (0,) * len(CLASSES)
    vocabulary_size: int = 0
    columns: tuple[str, ...] = CLASSES

    @property
    def by_label(self) -> Totals:
        """The totals of ham and spam."""
        if len(self.columns) == len(CLASSES):
            return self
        return Totals(_sum_by_label(self.messages), _sum_by_label(self.token_weights), self.vocabulary_size)

    def in_columns(self, columns: Sequence[str]) -> Totals:
        """Return the same totals for these columns, which are all of its own and perhaps some more."""
        if self.columns == tuple(columns):
            return self
        places = {name: place for place, name in enumerate(self.columns)}
        messages, weights = (
            tuple(values[places[name]] if name in places else 0 for name in columns)
            for values in (self.messages, self.token_weights)
        )
        return Totals(messages, weights, self.vocabulary_size, tuple(columns))

    def messages_by_label(self) -> dict[str, int]:
        """Return the number of learned messages of each class, by its label."""
        return {label: int(count) for label, count in zip(CLASSES, self.by_label.messages, strict=True)}

    def with_lesson(self, column: int, weight: int, new_tokens: int, messages: int = 1) -> Totals:
        """Return the totals after a lesson in the column of this number.

        The lesson adds ``messages`` messages, tokens of this summed ``weight``, and ``new_tokens`` to the
        vocabulary. Each of the three is negative when a lesson is taken back.
        """
        return Totals(
            _increased(self.messages, column, messages),
            _increased(self.token_weights, column, weight),
            self.vocabulary_size + new_tokens,
            self.columns,
        )


@dataclass(frozen=True, slots=True, order=True)
class ChangePosition:
    """A place in a change stream: both numbers of the stream id of a change, and its sequence number."""

    milliseconds: int = 0
    number: int = 0
    sequence: int = 0

    @classmethod
    def of(cls, stream_id: bytes, sequence: int = 0) -> ChangePosition:
        """Return the place of the change with this stream id; an empty id is before all."""
        milliseconds, _, number = stream_id.partition(b"-")
        return cls(int(milliseconds or 0), int(number or 0), sequence)

    @property
    def stream_id(self) -> bytes:
        """The stream id as Redis writes it."""
        return b"%d-%d" % (self.milliseconds, self.number)


NO_CHANGE = ChangePosition()
"""The place before the first change."""


class Counts(ABC):
    """The counts of all tokens and sums: one integer for each column.

    ``columns`` are the names of those that are there in the beginning, of ham and of spam first; others are added
    where they are first named. ``set_counts`` and ``set_column`` do not change the totals: the caller sets them as
    a whole. ``add`` and ``subtract`` update them.
    """

    def __init__(self, columns: Sequence[str] = CLASSES) -> None:
        self._columns = list(columns)
        self._sums_by_names: dict[tuple[bytes, ...], NDArray[np.int64]] = {}
        self.set_totals(Totals((0,) * len(columns), (0,) * len(columns), 0, tuple(columns)))

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""

    @property
    def totals(self) -> Totals:
        """The totals of ham and spam, which were set by whoever changed the counts."""
        return self._totals_by_label

    @property
    def column_totals(self) -> Totals:
        """The totals of each column, in the order of ``look_up_columns``."""
        return self._totals

    def set_totals(self, totals: Totals) -> None:
        """Set the totals as a whole."""
        for name in totals.columns:
            self._column(name)
        self._totals = totals.in_columns(self._columns)
        self._totals_by_label = self._totals.by_label

    @abstractmethod
    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` by label, shape (tokens, classes); an unknown token has zeros."""

    @abstractmethod
    def look_up_columns(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` in each column, shape (tokens, columns)."""

    def look_up_with_totals(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` by label, and the totals."""
        return self.look_up(tokens) if tokens else _no_rows(), self._totals_by_label

    def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums by label, shape (names, classes).

        Each call returns the same array object until a count changes, so that callers can cache by its identity.
        """
        rows = self._sums_by_names.get(names)
        if rows is None:
            rows = self._sums_by_names[names] = self.look_up(names)
        return rows

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now, if there is one."""
        return None

    @property
    @abstractmethod
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""

    @abstractmethod
    def snapshot_columns(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and a copy of their counts, shape (names, columns)."""

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the same by label, shape (names, classes)."""
        names, rows = self.snapshot_columns()
        return names, rows_by_label(rows)

    def tokens(self) -> list[bytes]:
        """Return the names of all tokens, without the sums."""
        return [name for name in self.snapshot_columns()[0] if not is_sum(name)]

    @abstractmethod
    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` to ``rows``, shape (tokens, columns).

        A token whose row is all zeros is forgotten.
        """

    def set_column(self, tokens: Sequence[bytes], column: str, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one column, and leave those in the others as they are."""
        self._set_column(tokens, self._column(column), values)

    @abstractmethod
    def _set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts in the column of this number."""

    @abstractmethod
    def _add_column(self) -> None:
        """Give all tokens one more count, which is 0."""

    def _column(self, name: str) -> int:
        """Return the number of a column, which is made where there is none of this name."""
        if name not in self._columns:
            self._add_column()
            self._columns.append(name)
            self._totals = self._totals.in_columns(self._columns)
        return self._columns.index(name)

    def add(self, tokens: Sequence[bytes], column: str, weight: int, sums: Sums = ()) -> None:
        """Learn a message in ``column``: distinct ``tokens``, each with ``weight``, and ``sums``."""
        self._change(tokens, column, weight, sums, 1)

    def subtract(self, tokens: Sequence[bytes], column: str, weight: int, sums: Sums = ()) -> None:
        """Take back exactly what ``add`` with the same arguments added."""
        self._change(tokens, column, weight, sums, -1)

    def _change(self, tokens: Sequence[bytes], name: str, weight: int, sums: Sums, sign: int) -> None:
        column = self._column(name)
        before = self.look_up_columns(tokens)
        after = before.copy()
        after[:, column] += sign * weight
        self.set_counts(tokens, after)
        new_tokens = int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        self.set_totals(self._totals.with_lesson(column, sign * weight * len(tokens), new_tokens, sign))
        if sums:
            names = [name for name, _ in sums]
            rows = self.look_up_columns(names)
            rows[:, column] += [sign * amount for _, amount in sums]
            self.set_counts(names, rows)


class ClassCounts(Counts):
    """Counts in a dictionary and an array. A token takes about 150 bytes, its name included."""

    def __init__(self, columns: Sequence[str] = CLASSES) -> None:
        self._rows: dict[bytes, int] = {}
        self._counts = np.zeros((_INITIAL_CAPACITY, len(columns)), dtype=np.int64)
        self._used = _ZERO_ROW + 1
        self._free: list[int] = []
        self._sum_count = 0
        super().__init__(columns)

    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""
        return len(self._rows)

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` by label, shape (tokens, classes); an unknown token has zeros."""
        return rows_by_label(self.look_up_columns(tokens))

    def look_up_columns(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` in each column, shape (tokens, columns)."""
        return self._counts[self._row_numbers(tokens)]

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` to ``rows``, shape (tokens, columns)."""
        self._write_rows(tokens, self._row_numbers(tokens), rows)

    def _set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        row_numbers = self._row_numbers(tokens)
        rows = self._counts[row_numbers]
        rows[:, column] = values
        self._write_rows(tokens, row_numbers, rows)

    def _add_column(self) -> None:
        self._counts = np.pad(self._counts, ((0, 0), (0, 1)))

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        return len(self._rows) - self._sum_count

    def snapshot_columns(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and a copy of their counts, shape (names, columns)."""
        return list(self._rows), self._counts[np.fromiter(self._rows.values(), np.intp, len(self._rows))]

    def _row_numbers(self, tokens: Sequence[bytes]) -> NDArray[np.intp]:
        return np.fromiter(map(self._rows.get, tokens, repeat(_ZERO_ROW)), dtype=np.intp, count=len(tokens))

    def _write_rows(self, tokens: Sequence[bytes], row_numbers: NDArray[np.intp], rows: NDArray[np.int64]) -> None:
        has_row, needs_row = row_numbers != _ZERO_ROW, np.any(rows != 0, axis=1)
        released, added = np.flatnonzero(has_row & ~needs_row), np.flatnonzero(~has_row & needs_row)
        if len(released):
            self._release_rows([tokens[i] for i in released.tolist()])
            row_numbers[released] = _ZERO_ROW
        if len(added):
            row_numbers[added] = self._assign_rows([tokens[i] for i in added.tolist()])
        self._counts[row_numbers] = rows
        self._sums_by_names.clear()

    def _release_rows(self, names: list[bytes]) -> None:
        rows = [self._rows.pop(name) for name in names]
        self._counts[rows] = 0
        self._free += rows
        self._sum_count -= sum(map(is_sum, names))

    def _assign_rows(self, names: list[bytes]) -> list[int]:
        """Give each of these new names a row, and return the row numbers: free rows first, then new ones."""
        reused = min(len(names), len(self._free))
        new_rows = range(self._used, self._used + len(names) - reused)
        rows = [*(self._free.pop() for _ in range(reused)), *new_rows]
        self._used = new_rows.stop
        while self._used > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._rows.update(zip(names, rows, strict=True))
        self._sum_count += sum(map(is_sum, names))
        return rows


def is_sum(name: bytes) -> bool:
    """Return whether ``name`` is the name of a sum and not a token."""
    return name.startswith(SUM_PREFIX) and b":" not in name


@cache
def _no_rows() -> NDArray[np.int64]:
    return np.zeros((0, len(CLASSES)), np.int64)


def rows_by_label(rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the counts of ham and spam, shape (rows, classes), from those in each column."""
    if rows.shape[1] == len(CLASSES):
        return rows
    spam = rows[:, 1]
    return np.stack([rows.sum(axis=1) - spam, spam], axis=1)


def _sum_by_label(values: Sequence[int]) -> tuple[int, ...]:
    return sum(values) - values[1], values[1]


def _increased(values: tuple[int, ...], column: int, change: int) -> tuple[int, ...]:
    return (*values[:column], values[column] + change, *values[column + 1 :])
