"""Class counts in the table of the native library, with the results of ``ClassCounts``.

Rules: a table has a fixed size. Before it is full, a larger one is made, and the counts are copied into that, some
of it at each change, so that no change takes long; until all are copied, changes go to both. The rows of forgotten
tokens are not copied. A change to a table that was not committed never shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.counts import ChangePosition, Counts, CountsChange, CountsView, Totals
from nbstream.engine.table import WORD_BYTES, Memory, NewTable, Table, TableFailure, TableFull, table_bytes
from nbstream.tokens.token_list import join_tokens

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nbstream.engine.table import TableFunctions

_LEAST_ROWS = 1024
_SPARE = 1.5  # how many times the tokens that are there a new table has room for
_WORDS_PER_ROW = 6  # of long names: a row has room for names of up to 23 bytes
_FULL_SHARE = 0.8  # from here on the counts are copied
_COPIED_PER_TOKEN = 8  # rows: enough that a copy ends before the table is full
_LEAST_COPIED = 512
_MOST_COPIED = 16_384  # 3 ms
_ROLLED_BACK = 65_536


class TableView(CountsView):
    """The counts in a table, to be read."""

    _sums: tuple[Table, int, dict[tuple[bytes, ...], NDArray[np.int64]]] | None = None

    @property
    def table(self) -> Table:
        """The table that has the counts now."""
        raise NotImplementedError

    @property
    def native_table(self) -> Table | None:
        """The same, for whoever knows other counts as well."""
        return self.table

    def __len__(self) -> int:
        """Return the number of tokens and sums that have a count other than zero."""
        return self.table.describe().names

    @property
    def totals(self) -> Totals:
        """The totals after the last change."""
        return _totals(self.table.describe().totals)

    @property
    def position(self) -> ChangePosition:
        """The last change of the stream that was applied."""
        return ChangePosition(*self.table.describe().position[:3])

    @property
    def stored_position(self) -> ChangePosition:
        """A change that was known to be stored when the last one was applied, or that one itself."""
        return ChangePosition(*self.table.describe().position[3:])

    def look_up(self, tokens: Sequence[bytes]) -> NDArray[np.int64]:
        """Return the counts of ``tokens``, shape (tokens, classes); an unknown token has zeros."""
        return self.table.look_up(join_tokens(tokens), len(tokens))[0]

    def look_up_with_totals(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` and the totals, both after the same change."""
        rows, totals = self.table.look_up(join_tokens(tokens), len(tokens))
        return rows, _totals(totals)

    def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (names, classes): the same array until a count changes."""
        table = self.table
        epoch = table.epoch
        if self._sums is None or self._sums[:2] != (table, epoch):
            self._sums = table, epoch, {}
        rows_by_names = self._sums[2]
        rows = rows_by_names.get(names)
        if rows is None:
            rows_by_names[names] = rows = table.look_up(b"\n".join(names), len(names))[0]
        return rows

    @property
    def distinct_tokens(self) -> int:
        """The number of tokens that have a count other than zero, without the sums."""
        description = self.table.describe()
        return description.names - description.sums

    def snapshot(self) -> tuple[list[bytes], NDArray[np.int64]]:
        """Return the names of all tokens and sums, and their counts, shape (names, classes).

        In another process than the writer's, each row is as it was at some moment of the call.
        """
        joined, rows = self.table.read(with_names=True, with_sums=True)
        return joined.split(b"\n") if len(rows) else [], rows


class TableCounts(TableView, Counts):
    """Counts in a table of which this process is the only writer, and in ever larger ones as tokens come.

    ``make_memory`` gives memory of so many bytes, or raises ``OSError``. Each method that sets counts raises that
    too; what it was to set is set then, or not. Other processes see the counts after ``publish``.
    """

    def __init__(
        self,
        functions: TableFunctions,
        make_memory: Callable[[int], Memory],
        table: Table,
        *,
        is_published: bool,
    ) -> None:
        """Begin with what is in ``table``."""
        self._functions = functions
        self._make_memory = make_memory
        self._table = table
        self._is_published = is_published
        self._next: NewTable | None = None
        self._larger: Table | None = None
        self._copied = 0  # rows

    @classmethod
    def empty(
        cls,
        functions: TableFunctions,
        make_memory: Callable[[int], Memory] = Memory,
        tokens: int = 0,
        identity: tuple[int, ...] = (0, 0),
    ) -> TableCounts:
        """Return counts with room for so many ``tokens``; ``identity`` says whose counts these are."""
        table = _new_table(functions, make_memory, tokens, 0, identity).make()
        return cls(functions, make_memory, table, is_published=False)

    @classmethod
    def take_over(
        cls, functions: TableFunctions, make_memory: Callable[[int], Memory], memory: Memory
    ) -> TableCounts:
        """Return the counts that another writer has published in ``memory``, without a change that it did not end.

        That takes some 10 ms for a million tokens. Raises ``TableFailure`` where the memory is damaged.
        """
        table = Table(functions, memory)
        _roll_back(table)
        return cls(functions, make_memory, table, is_published=True)

    @property
    def table(self) -> Table:
        """The table that has the counts now."""
        return self._table

    def publish(self) -> None:
        """Let other processes see the counts, from now on also where they are copied into a larger table."""
        if not self._is_published:
            self._table.memory.publish()
            self._is_published = True

    def set_totals(self, totals: Totals) -> None:
        """Set the totals as a whole."""
        self._write(lambda _: None, 0, 0, _numbers(totals))

    def set_counts(self, tokens: Sequence[bytes], rows: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens``; a token whose row is all zeros is forgotten."""
        joined = join_tokens(tokens)
        self._write(lambda table: table.set_counts(joined, rows), len(tokens), len(joined))

    def set_column(self, tokens: Sequence[bytes], column: int, values: NDArray[np.int64]) -> None:
        """Set the counts of distinct ``tokens`` in one class."""
        joined = join_tokens(tokens)
        self._write(lambda table: table.set_column(joined, column, values), len(tokens), len(joined))

    def apply(self, change: CountsChange) -> None:
        """Set what results from a change of the stream, all at once for whoever looks on."""
        joined = join_tokens(change.tokens)

        def write(table: Table) -> None:
            for column, values in change.columns:
                table.set_column(joined, column, values)

        self._write(
            write,
            len(change.tokens),
            len(joined),
            _numbers(change.totals),
            (*_place(change.position), *_place(change.stored)),
        )

    def _write(
        self,
        write: Callable[[Table], None],
        tokens: int,
        length: int,
        totals: tuple[int, ...] | None = None,
        position: tuple[int, ...] | None = None,
    ) -> None:
        """Make a change of at most so many new ``tokens``, whose names take ``length`` bytes."""
        while not _change(self._table, write, totals, position):
            self._copy_all(tokens, length)
        larger, self._larger = self._larger, None  # one that misses a change is not used any more
        if larger and _change(larger, write, totals, position):
            self._larger = larger
        self._copy_some(max(_LEAST_COPIED, min(_MOST_COPIED, _COPIED_PER_TOKEN * tokens)))

    def _copy_some(self, rows: int) -> None:
        """Make a larger table where it is time and copy the counts into it: the next step of that."""
        if self._larger is None:
            if self._next is None and self._table.describe().used_share < _FULL_SHARE:
                return
            self._next = self._next or self._new_table(0, 0)
            self._begin_copy(self._next.make_some())
            return
        next_row = 0

        def copy(target: Table) -> None:
            nonlocal next_row
            next_row = self._table.copy_rows(target, self._copied, rows)

        now = self._table.describe()
        if not _change(self._larger, copy, now.totals, now.position):
            self._larger = None
        elif next_row:
            self._copied = next_row
        else:
            self._table, self._larger = self._larger, None
            if self._is_published:
                self._table.memory.publish()

    def _new_table(self, tokens: int, length: int) -> NewTable:
        """Return a table to be made that has room for so many more tokens, whose names take ``length`` bytes."""
        now = self._table.describe()
        words = now.long_names_used + length // WORD_BYTES + tokens
        return _new_table(self._functions, self._make_memory, now.names + tokens, words, now.identity)

    def _begin_copy(self, table: Table | None) -> None:
        """Copy into this table from the next change on; None where it is not made yet."""
        if table is not None:
            self._larger, self._next, self._copied = table, None, 0

    def _copy_all(self, tokens: int, length: int) -> None:
        """Copy all counts into a table with room for so many more tokens."""
        self._begin_copy(self._new_table(tokens, length).make())
        former = self._table
        while self._table is former:
            if self._larger is None:
                raise TableFailure("the table has more names than it says")
            self._copy_some(_MOST_COPIED)


def _new_table(
    functions: TableFunctions,
    make_memory: Callable[[int], Memory],
    tokens: int,
    long_name_words: int,
    identity: tuple[int, ...],
) -> NewTable:
    rows = max(_LEAST_ROWS, round(_SPARE * tokens))
    words = max(_WORDS_PER_ROW * rows, round(_SPARE * long_name_words))
    memory = make_memory(table_bytes(functions, rows, words))
    return NewTable(functions, memory, rows, words, identity)


def _change(
    table: Table,
    write: Callable[[Table], None],
    totals: tuple[int, ...] | None,
    position: tuple[int, ...] | None,
) -> bool:
    """Make a change and return True, or change nothing and return False where the table is full."""
    table.begin()
    try:
        while not _is_written(table, write):
            if not table.extend():
                _roll_back(table)
                return False
        now = table.describe()
        table.commit(now.totals if totals is None else totals, now.position if position is None else position)
    except BaseException:
        _roll_back(table)
        raise
    return True


def _is_written(table: Table, write: Callable[[Table], None]) -> bool:
    try:
        write(table)
    except TableFull:
        return False
    return True


def _roll_back(table: Table) -> None:
    first = table.roll_back(0, _ROLLED_BACK)
    while first:
        first = table.roll_back(first, _ROLLED_BACK)


def _numbers(totals: Totals) -> tuple[int, ...]:
    return (*totals.messages, *totals.token_weights, totals.vocabulary_size)


def _place(position: ChangePosition) -> tuple[int, int, int]:
    return position.milliseconds, position.number, position.sequence


def _totals(numbers: tuple[int, ...]) -> Totals:
    return Totals(numbers[0:2], numbers[2:4], numbers[4])
