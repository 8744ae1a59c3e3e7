"""Class counts in memory: how often each token was learned in each class, with exact integer algebra.

Rules: counts are fixed-point integers (``WEIGHT_ONE`` is one full-weight occurrence). Subtracting undoes adding
exactly, whatever was done in between, so nothing is ever clamped here: a count may be negative for a while when
changes arrive out of order. A token all of whose counts are zero is forgotten.

Beside the tokens stand sums: what the event models and the calibration count that is no token, each under a name
that begins with ``SUM_PREFIX``. They are added and subtracted like tokens, by amounts of their own, and belong
neither to the totals nor to the vocabulary. No token is taken for one: a sum's name has no colon, and a token
that begins with the mark does (it is made from a header field whose name begins so).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

Sums: TypeAlias = "Sequence[tuple[bytes, int]]"
"""Distinct names of sums and what a message adds to each."""

CLASSES = ("ham", "spam")
"""The classes, in the order of the columns of every array of counts."""

WEIGHT_ONE = 1000
"""The fixed-point count of one occurrence at full weight."""

SUM_PREFIX = b"="
"""The beginning of the name of a sum."""

_ZERO_ROW = 0  # this row stays zero: what an unknown token is looked up as
_INITIAL_CAPACITY = 1024


@dataclass(frozen=True, slots=True)
class Totals:
    """What normalises the counts.

    Per class the number of learned messages and the sum of the weights of all their tokens (fixed point); over
    all classes the number of distinct tokens with a count above zero.
    """

    messages: tuple[int, ...] = (0,) * len(CLASSES)
    tokens: tuple[int, ...] = (0,) * len(CLASSES)
    vocabulary_size: int = 0

    def with_lesson(self, column: int, weight: int, grown: int, messages: int = 1) -> Totals:
        """These once ``messages`` more of that summed ``weight`` are learned, and ``grown`` more tokens known."""
        return Totals(
            _increased(self.messages, column, messages),
            _increased(self.tokens, column, weight),
            self.vocabulary_size + grown,
        )


class ClassCounts:
    """Token → one integer per class. About 150 bytes a token, its bytes included.

    ``put`` sets counts and leaves ``totals`` to the caller, who sets them as a whole; ``add`` and ``subtract``
    keep them in step.
    """

    def __init__(self, classes: int = len(CLASSES)) -> None:
        self._rows: dict[bytes, int] = {}
        self._counts = np.zeros((_INITIAL_CAPACITY, classes), dtype=np.int64)
        self._used = _ZERO_ROW + 1
        self._free: list[int] = []
        self._sum_count = 0
        self._vocabulary_counts: NDArray[np.int64] | None = None
        self.totals = Totals((0,) * classes, (0,) * classes)

    def __len__(self) -> int:
        """The number of tokens and sums that have a count other than zero."""
        return len(self._rows)

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """The counts of ``tokens``, shape (tokens, classes); zeros for an unknown token."""
        return self._counts[self._row_numbers(tokens)]

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` to ``rows``; a row of zeros forgets its token."""
        self._write_rows(tokens, self._row_numbers(tokens), rows)

    def set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one class, and leave those in the others."""
        places = self._row_numbers(tokens)
        rows = self._counts[places]
        rows[:, column] = values
        self._write_rows(tokens, places, rows)

    def add(self, tokens: Sequence[bytes], column: int, weight: int, sums: Sums = ()) -> None:
        """Learn a message in the class of ``column``: distinct ``tokens``, each with ``weight``, and ``sums``."""
        self._change_tokens(tokens, column, weight, messages=1)
        self._change_sums(sums, column, 1)

    def subtract(self, tokens: Sequence[bytes], column: int, weight: int, sums: Sums = ()) -> None:
        """Take back what ``add`` with the same arguments did."""
        self._change_tokens(tokens, column, -weight, messages=-1)
        self._change_sums(sums, column, -1)

    def vocabulary_counts(self) -> NDArray[np.int64]:
        """The counts of all tokens, without the sums, shape (tokens, classes), in the order of ``tokens``.

        The very same array until a count changes.
        """
        if self._vocabulary_counts is None:
            self._vocabulary_counts = self._counts[[row for name, row in self._rows.items() if not is_sum(name)]]
        return self._vocabulary_counts

    @property
    def largest_count(self) -> int:
        """The largest of all totals, counts and sums: 2 ms for a million tokens."""
        return max(*self.totals.tokens, int(self._counts.max()))

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        return len(self._rows) - self._sum_count

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """All tokens and sums, and a copy of their counts, shape (names, classes)."""
        return list(self._rows), self._counts[np.fromiter(self._rows.values(), np.intp, len(self._rows))]

    def tokens(self) -> list[bytes]:
        """All tokens, without the sums."""
        return [name for name in self._rows if not is_sum(name)]

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
        grown = int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        self.totals = self.totals.with_lesson(column, weight * len(tokens), grown, messages)

    def _row_numbers(self, tokens: Sequence[bytes]) -> NDArray[np.intp]:
        return np.fromiter(map(self._rows.get, tokens, repeat(_ZERO_ROW)), dtype=np.intp, count=len(tokens))

    def _write_rows(self, tokens: Sequence[bytes], places: NDArray[np.intp], rows: NDArray[np.int64]) -> None:
        known, kept = places != _ZERO_ROW, np.any(rows != 0, axis=1)
        going, coming = np.flatnonzero(known & ~kept), np.flatnonzero(~known & kept)
        if len(going):
            self._release_rows([tokens[i] for i in going.tolist()])
            places[going] = _ZERO_ROW
        if len(coming):
            places[coming] = self._assign_rows([tokens[i] for i in coming.tolist()])
        self._counts[places] = rows
        self._vocabulary_counts = None

    def _release_rows(self, names: list[bytes]) -> None:
        rows = [self._rows.pop(name) for name in names]
        self._counts[rows] = 0
        self._free += rows
        self._sum_count -= sum(map(is_sum, names))

    def _assign_rows(self, names: list[bytes]) -> list[int]:
        """A row for each of names that are not known: those that became free, then fresh ones."""
        reused = min(len(names), len(self._free))
        fresh = range(self._used, self._used + len(names) - reused)
        rows = [*(self._free.pop() for _ in range(reused)), *fresh]
        self._used = fresh.stop
        while self._used > len(self._counts):
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._rows.update(zip(names, rows, strict=True))
        self._sum_count += sum(map(is_sum, names))
        return rows


def is_sum(name: bytes) -> bool:
    """Whether a sum is counted under ``name``, not a token."""
    return name.startswith(SUM_PREFIX) and b":" not in name


def _increased(values: tuple[int, ...], column: int, change: int) -> tuple[int, ...]:
    return (*values[:column], values[column] + change, *values[column + 1 :])
