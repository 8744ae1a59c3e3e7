"""Class counts in the table of the native library, with the results of ``ClassCounts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.counts import ClassCounts, Counts, Totals
from nbstream.engine.table import Table
from nbstream.tokens.tokens import join_tokens

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class TableCounts(Counts):
    """Counts in a table, with room for so many ``tokens`` and some more in the beginning."""

    def __init__(self, library: ctypes.CDLL, tokens: int = 0) -> None:
        self._table = Table(library, tokens)
        self._sums_by_names: dict[tuple[bytes, ...], NDArray[np.int64]] = {}

    @property
    def native_table(self) -> Table:
        """The table."""
        return self._table

    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""
        return self._table.describe().names

    @property
    def totals(self) -> Totals:
        """The totals as they were set."""
        return _totals(self._table.look_up(b"", 0)[1])

    def set_totals(self, totals: Totals) -> None:
        """Set the totals as a whole."""
        self._table.set_totals((*totals.messages, *totals.token_weights, totals.vocabulary_size))

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens``, shape (tokens, classes); an unknown token has zeros."""
        return self._table.look_up(join_tokens(tokens), len(tokens))[0]

    def look_up_with_totals(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` and the totals."""
        rows, totals = self._table.look_up(join_tokens(tokens), len(tokens))
        return rows, _totals(totals)

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens``; a token whose row is all zeros is forgotten."""
        self._table.set_counts(join_tokens(tokens), rows)
        self._sums_by_names.clear()

    def set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one class."""
        self._table.set_column(join_tokens(tokens), column, values)
        self._sums_by_names.clear()

    def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (names, classes): the same array until a count changes."""
        rows = self._sums_by_names.get(names)
        if rows is None:
            rows = self._sums_by_names[names] = self._table.look_up(b"\n".join(names), len(names))[0]
        return rows

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        usage = self._table.describe()
        return usage.names - usage.sums

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and their counts, shape (names, classes)."""
        joined, rows = self._table.read()
        return joined.split(b"\n") if len(rows) else [], rows


def make_counts(library: ctypes.CDLL | None, tokens: int = 0) -> Counts:
    """Return empty counts for about so many ``tokens``: in a table of the native library where there is one."""
    return TableCounts(library, tokens) if library else ClassCounts()


def _totals(numbers: tuple[int, ...]) -> Totals:
    return Totals(numbers[0:2], numbers[2:4], numbers[4])
