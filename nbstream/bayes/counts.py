"""Class counts in memory: how often each token was learned in each class, with exact integer algebra.

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
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.engine.table import Table

Sums: TypeAlias = "Sequence[tuple[bytes, int]]"
"""Distinct names of sums, each with the amount that a message adds to it."""

CLASSES = ("ham", "spam")
"""The classes, in the order of the columns of every array of counts."""

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

    ``messages`` is the number of learned messages per class, and ``token_weights`` the sum of the weights of all
    their tokens (fixed point). ``vocabulary_size`` is the number of distinct tokens with a count above zero in any
    class.
    """

    messages: tuple[int, ...] = (0,) * len(CLASSES)
    token_weights: tuple[int, ...] = (0,) * len(CLASSES)
    vocabulary_size: int = 0

    def messages_by_label(self) -> dict[str, int]:
        """Return the number of learned messages of each class, by its label."""
        return {label: int(count) for label, count in zip(CLASSES, self.messages, strict=True)}

    def with_lesson(self, column: int, weight: int, new_tokens: int, messages: int = 1) -> Totals:
        """Return the totals after a lesson in the class of ``column``.

        The lesson adds ``messages`` messages, tokens of this summed ``weight``, and ``new_tokens`` to the
        vocabulary. Each of the three is negative when a lesson is taken back.
        """
        return Totals(
            _increased(self.messages, column, messages),
            _increased(self.token_weights, column, weight),
            self.vocabulary_size + new_tokens,
        )


class AutomaticCounts(NamedTuple):
    """The counts of some tokens as they were learned without people, shape (n, classes), and the totals.

    ``generation`` is that of the columns in which they are; see ``bayes.kinds.automatic_columns``.
    """

    rows: NDArray[np.int64]
    totals: Totals
    generation: int


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
    """The counts of all tokens and sums: one integer per class.

    ``set_counts`` and ``set_column`` do not change the totals: the caller sets them as a whole. ``add`` and
    ``subtract`` update them.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""

    @property
    @abstractmethod
    def totals(self) -> Totals:
        """The totals, which were set by whoever changed the counts."""

    @abstractmethod
    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens``, shape (tokens, classes); an unknown token has zeros."""

    @abstractmethod
    def look_up_with_totals(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` and the totals."""

    @abstractmethod
    def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (names, classes).

        Each call returns the same array object until a count changes, so that callers can cache by its identity.
        """

    @property
    def native_table(self) -> Table | None:
        """The table of the native library that has the counts now, if there is one."""
        return None

    @property
    @abstractmethod
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""

    @abstractmethod
    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and a copy of their counts, shape (names, classes)."""

    def tokens(self) -> list[bytes]:
        """Return the names of all tokens, without the sums."""
        return [name for name in self.snapshot()[0] if not is_sum(name)]

    @abstractmethod
    def set_totals(self, totals: Totals) -> None:
        """Set the totals as a whole."""

    @abstractmethod
    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` to ``rows``, shape (tokens, classes).

        A token whose row is all zeros is forgotten.
        """

    @abstractmethod
    def set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one class, and leave those in the other classes as they are."""

    def add(self, tokens: Sequence[bytes], column: int, weight: int, sums: Sums = ()) -> None:
        """Learn a message in the class of ``column``: distinct ``tokens``, each with ``weight``, and ``sums``."""
        self._change_tokens(tokens, column, weight, messages=1)
        self._change_sums(sums, column, 1)

    def subtract(self, tokens: Sequence[bytes], column: int, weight: int, sums: Sums = ()) -> None:
        """Take back exactly what ``add`` with the same arguments added."""
        self._change_tokens(tokens, column, -weight, messages=-1)
        self._change_sums(sums, column, -1)

    def _change_sums(self, sums: Sums, column: int, sign: int) -> None:
        if sums:
            names = [name for name, _ in sums]
            rows = self.look_up(names)
            rows[:, column] += [sign * amount for _, amount in sums]
            self.set_counts(names, rows)

    def _change_tokens(self, tokens: Sequence[bytes], column: int, weight: int, messages: int) -> None:
        before = self.look_up(tokens)
        after = before.copy()
        after[:, column] += weight
        self.set_counts(tokens, after)
        new_tokens = int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        self.set_totals(self.totals.with_lesson(column, weight * len(tokens), new_tokens, messages))


class ClassCounts(Counts):
    """Counts in a dictionary and an array. A token takes about 150 bytes, its name included."""

    def __init__(self, classes: int = len(CLASSES)) -> None:
        self._rows: dict[bytes, int] = {}
        self._counts = np.zeros((_INITIAL_CAPACITY, classes), dtype=np.int64)
        self._used = _ZERO_ROW + 1
        self._free: list[int] = []
        self._sum_count = 0
        self._sums_by_names: dict[tuple[bytes, ...], NDArray[np.int64]] = {}
        self._totals = Totals((0,) * classes, (0,) * classes)

    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""
        return len(self._rows)

    @property
    def totals(self) -> Totals:
        """The totals as they were set."""
        return self._totals

    def set_totals(self, totals: Totals) -> None:
        """Set the totals as a whole."""
        self._totals = totals

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens``, shape (tokens, classes); an unknown token has zeros."""
        return self._counts[self._row_numbers(tokens)]

    def look_up_with_totals(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` and the totals."""
        return self.look_up(tokens), self._totals

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` to ``rows``, shape (tokens, classes).

        A token whose row is all zeros is forgotten.
        """
        self._write_rows(tokens, self._row_numbers(tokens), rows)

    def set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one class, and leave those in the other classes as they are."""
        row_numbers = self._row_numbers(tokens)
        rows = self._counts[row_numbers]
        rows[:, column] = values
        self._write_rows(tokens, row_numbers, rows)

    def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (names, classes).

        Each call returns the same array object until a count changes, so that callers can cache by its identity.
        """
        rows = self._sums_by_names.get(names)
        if rows is None:
            rows = self._sums_by_names[names] = self.look_up(names)
        return rows

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        return len(self._rows) - self._sum_count

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and a copy of their counts, shape (names, classes)."""
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


def _increased(values: tuple[int, ...], column: int, change: int) -> tuple[int, ...]:
    return (*values[:column], values[column] + change, *values[column + 1 :])
