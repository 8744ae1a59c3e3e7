"""Class counts in the table of the native library, with the results of ``ClassCounts``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import ClassCounts, Counts
from nbstream.engine.table import Table
from nbstream.tokens.tokens import join_tokens

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray


class TableCounts(Counts):
    """Counts in a table, with room for so many ``tokens`` and some more in the beginning."""

    def __init__(self, library: ctypes.CDLL, tokens: int = 0, columns: Sequence[str] = CLASSES) -> None:
        self._table = Table(library, tokens, len(columns))
        super().__init__(columns)

    @property
    def native_table(self) -> Table:
        """The table."""
        return self._table

    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""
        return self._table.describe().names

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` by label, shape (tokens, classes); an unknown token has zeros."""
        return self._table.look_up(join_tokens(tokens), len(tokens))

    def look_up_columns(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens`` in each column, shape (tokens, columns)."""
        return self._table.look_up(join_tokens(tokens), len(tokens), all_columns=True)

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens``; a token whose row is all zeros is forgotten."""
        self._table.set_counts(join_tokens(tokens), rows)
        self._sums_by_names.clear()

    def _set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        self._table.set_column(join_tokens(tokens), column, values)
        self._sums_by_names.clear()

    def _add_column(self) -> None:
        self._table.add_column()

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        usage = self._table.describe()
        return usage.names - usage.sums

    def snapshot_columns(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and their counts, shape (names, columns)."""
        joined, rows = self._table.read()
        return joined.split(b"\n") if len(rows) else [], rows


def make_counts(library: ctypes.CDLL | None, tokens: int = 0, columns: Sequence[str] = CLASSES) -> Counts:
    """Return empty counts for about so many ``tokens``: in a table of the native library where there is one."""
    return TableCounts(library, tokens, columns) if library else ClassCounts(columns)
