"""The table of the native library: token -> counts in memory that processes may share. One writes, others read.

A change sets any number of counts, the totals and the position, and is visible as a whole or not at all, even if
the writer is killed in the middle. ``native/src/table`` says how.
"""

from __future__ import annotations

import ctypes
import mmap
import secrets
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

CLASSES = 2
ROW_BYTES = 64  # NBN_TABLE_ROW_BYTES of interface.h
WORD_BYTES = 8

_ARGUMENTS, _FULL = -1, -2
_COMMITTED_OFFSET = 64  # bytes: NBN_TABLE_COMMITTED_OFFSET of interface.h
_DESCRIPTION_WORDS = 23
_RESERVE_STEP = 1 << 19  # bytes: the kernel clears and maps them in some 0.5 ms
_ERRORS = {
    -3: "the memory holds what no table writes",
    -4: "changes come faster than they can be read",
    -5: "a change was begun and not committed",
    -6: "no change was begun",
    -7: "a fault in the native library",
}


class TableFailure(Exception):
    """The table cannot be read or written: its memory is damaged, or it is used in a wrong way."""


class TableFull(Exception):
    """All rows, or all room for long names, are in use."""


class Memory:
    """The memory of one table, all zeros in the beginning. This one is known to this process alone."""

    def __init__(self, size: int) -> None:
        self.buffer = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        """The whole of it."""
        # A message looks at places all over the table: with small pages the processor has to ask where they are.
        with suppress(OSError):  # a kernel without them
            self.buffer.madvise(mmap.MADV_HUGEPAGE)

    def reserve(self, start: int, end: int) -> None:
        """Make sure that the bytes from ``start`` to ``end`` can be written, or raise ``OSError``.

        Here the kernel gives the memory when it is written to.
        """

    def publish(self) -> None:
        """Let other processes find the table, in the place of the one before; here nobody looks for it."""


class TableFunctions:
    """The functions of the native library that work on tables."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size, u64, u32 = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint64, ctypes.c_uint32

        def function(name: str, *arguments: Any, result: Any = ctypes.c_int64) -> Any:
            declared = getattr(library, f"nbn_table_{name}")
            declared.argtypes, declared.restype = arguments, result
            return declared

        self.bytes = function("bytes", u64, u64)
        self.create = function("create", pointer, size, u64, u64, pointer)
        self.open = function("open", pointer, size, result=pointer)
        self.close = function("close", pointer, result=None)
        self.describe = function("describe", pointer, pointer)
        self.look_up = function("look_up", pointer, ctypes.c_char_p, size, pointer, size, pointer)
        self.read = function("read", pointer, u64, u64, u32, pointer, size, pointer, size, pointer)
        self.reserve = function("reserve", pointer, u64, u64)
        self.begin = function("begin", pointer)
        self.set_counts = function("set_counts", pointer, ctypes.c_char_p, size, pointer, size)
        self.set_column = function("set_column", pointer, ctypes.c_char_p, size, pointer, size, u32)
        self.commit = function("commit", pointer, pointer, pointer)
        self.roll_back = function("roll_back", pointer, u64, u64)
        self.copy_rows = function("copy_rows", pointer, pointer, u64, u64)


@dataclass(frozen=True, slots=True)
class TableDescription:
    """What is known of a table after its last change.

    ``epoch`` is the number of the change, ``totals`` are learned messages of ham and spam, their tokens, and the
    size of the vocabulary. ``position`` has both numbers of a stream id and a sequence number, of the last change,
    and of one that was known to be stored when it was applied. ``names`` counts those that have counts, the sums
    included. Long names are measured in words of 8 bytes.
    """

    epoch: int
    totals: tuple[int, ...]
    position: tuple[int, ...]
    names: int
    sums: int
    rows: int
    rows_used: int
    rows_reserved: int
    long_name_words: int
    long_names_used: int
    long_names_reserved: int
    identity: tuple[int, ...]
    head_bytes: int

    @property
    def used_share(self) -> float:
        """The share of the rows, or of the room for long names, that is in use."""
        return max(self.rows_used / self.rows, self.long_names_used / max(1, self.long_name_words))

    @property
    def bytes_used(self) -> int:
        """The bytes of memory that the table takes; what is reserved and unused is left out."""
        return self.head_bytes + ROW_BYTES * self.rows_used + WORD_BYTES * self.long_names_used


class Table:
    """One table in one memory, which it keeps.

    Its methods raise ``TableFailure``, and ``ValueError`` where names and counts do not fit together.
    """

    def __init__(self, functions: TableFunctions, memory: Memory) -> None:
        """Open a table that is in ``memory`` already."""
        self._handle = None
        self._functions = functions
        self.memory = memory
        self._bytes = np.frombuffer(memory.buffer, np.uint8)  # keeps the memory mapped
        self._handle = functions.open(self._bytes.ctypes.data, len(self._bytes))
        if not self._handle:
            raise TableFailure("the memory holds no table")
        self._committed = memoryview(memory.buffer)[_COMMITTED_OFFSET:][:WORD_BYTES].cast("Q")

    def __del__(self) -> None:
        if self._handle:
            self._functions.close(self._handle)

    @property
    def handle(self) -> int:
        """The handle of the table for other functions of the library; only while this object is kept."""
        assert self._handle is not None
        return int(self._handle)

    @property
    def epoch(self) -> int:
        """The number of the last change: another one means that something was changed."""
        return self._committed[0]

    def describe(self) -> TableDescription:
        """Return what is known of the table after its last change."""
        out = np.empty(_DESCRIPTION_WORDS, np.int64)
        _check(self._functions.describe(self._handle, out.ctypes.data))
        words = out.tolist()
        return TableDescription(
            epoch=words[0],
            totals=tuple(words[1:6]),
            position=tuple(word % (1 << 64) for word in words[6:12]),
            names=words[12],
            sums=words[13],
            rows=words[14],
            rows_used=words[15],
            rows_reserved=words[16],
            long_name_words=words[17],
            long_names_used=words[18],
            long_names_reserved=words[19],
            identity=tuple(word % (1 << 64) for word in words[20:22]),
            head_bytes=words[22],
        )

    def look_up(self, joined: bytes, count: int) -> tuple[NDArray[np.int64], tuple[int, ...]]:
        """Return the counts of ``count`` names, shape (count, 2), and the five totals, after the same change.

        ``joined`` are the names, separated by line feeds. A name that is unknown has zeros.
        """
        rows, totals = np.empty((count, CLASSES), np.int64), np.empty(5, np.int64)
        _check(
            self._functions.look_up(self._handle, joined, len(joined), rows.ctypes.data, count, totals.ctypes.data)
        )
        return rows, tuple(totals.tolist())

    def read(self, *, with_names: bool, with_sums: bool) -> tuple[bytes, NDArray[np.int64]]:
        """Return the names that have counts, separated by line feeds, and their counts, shape (names, 2).

        Without ``with_names`` the names are empty. In a reader each row is as it was at some moment of the call.
        """
        return self._read(0, self.describe().rows_used, with_names=with_names, with_sums=with_sums)

    def read_some(self, first: int, count: int) -> tuple[bytes, NDArray[np.int64]]:
        """Return all names, sums too, and counts as ``read`` does, of ``count`` rows from ``first`` on."""
        return self._read(
            first, min(count, max(0, self.describe().rows_used - first)), with_names=True, with_sums=True
        )

    def _read(
        self, first: int, count: int, *, with_names: bool, with_sums: bool
    ) -> tuple[bytes, NDArray[np.int64]]:
        used = self.describe()  # long names that are added later, by another process, may not fit
        while True:
            capacity = (24 * count + WORD_BYTES * used.long_names_used + count) * with_names
            rows, names = np.empty((count, CLASSES), np.int64), np.empty(capacity, np.uint8)
            length = np.zeros(1, np.uint64)
            found = self._functions.read(
                self._handle,
                first,
                count,
                not with_sums,
                rows.ctypes.data,
                len(rows),
                names.ctypes.data if with_names else None,
                capacity,
                length.ctypes.data,
            )
            if found != _FULL:
                return names[: int(length[0])].tobytes(), rows[: _check(found)]
            before, used = used, self.describe()
            if used == before:
                raise TableFailure("the names take more room than the table has")

    # What only the writer does

    def extend(self) -> bool:
        """Reserve some more memory; return whether there was any left. Raises ``OSError``.

        Rows and long names each have room for some more than they use: names may all be short.
        """
        now = self.describe()
        rows = min(now.rows, now.rows_used + _RESERVE_STEP // ROW_BYTES)
        words = min(now.long_name_words, now.long_names_used + _RESERVE_STEP // WORD_BYTES)
        rows, words = max(rows, now.rows_reserved), max(words, now.long_names_reserved)
        if (rows, words) == (now.rows_reserved, now.long_names_reserved):
            return False
        first_word = now.head_bytes + now.rows * ROW_BYTES
        self.memory.reserve(now.head_bytes + now.rows_reserved * ROW_BYTES, now.head_bytes + rows * ROW_BYTES)
        self.memory.reserve(first_word + now.long_names_reserved * WORD_BYTES, first_word + words * WORD_BYTES)
        _check(self._functions.reserve(self._handle, rows, words))
        return True

    def begin(self) -> None:
        """Begin a change."""
        _check(self._functions.begin(self._handle))

    def set_counts(self, joined: bytes, rows: NDArray[np.int64]) -> None:
        """Set the counts of the names in ``joined``. Raises ``TableFull``; then the same call may be repeated."""
        rows = np.ascontiguousarray(rows, np.int64)
        _check(self._functions.set_counts(self._handle, joined, len(joined), rows.ctypes.data, len(rows)))

    def set_column(self, joined: bytes, column: int, counts: NDArray[np.int64]) -> None:
        """Set the counts of the names in one class. Raises ``TableFull``; then the same call may be repeated."""
        counts = np.ascontiguousarray(counts, np.int64)
        _check(
            self._functions.set_column(self._handle, joined, len(joined), counts.ctypes.data, len(counts), column)
        )

    def commit(self, totals: tuple[int, ...], position: tuple[int, ...]) -> None:
        """Make the change visible, and with it these totals and this position."""
        numbers, place = np.array(totals, np.int64), np.array(position, np.uint64)
        _check(self._functions.commit(self._handle, numbers.ctypes.data, place.ctypes.data))

    def roll_back(self, first: int, rows: int) -> int:
        """Take back a change that was begun, in at most ``rows`` rows; return the next row, 0 at the end."""
        return _check(self._functions.roll_back(self._handle, first, rows))

    def copy_rows(self, target: Table, first: int, rows: int) -> int:
        """Copy the counts of at most ``rows`` rows to ``target``; return the next row, 0 at the end.

        Raises ``TableFull`` where ``target`` is; then the same call may be repeated.
        """
        return _check(self._functions.copy_rows(self._handle, target.handle, first, rows))


class NewTable:
    """An empty table that is being made in ``memory``, which has ``table_bytes``, in steps: no step takes long.

    ``identity`` says what the table holds.
    """

    def __init__(
        self,
        functions: TableFunctions,
        memory: Memory,
        rows: int,
        long_name_words: int,
        identity: tuple[int, ...],
    ) -> None:
        self._functions = functions
        self._memory = memory
        self._sizes = rows, long_name_words
        self._identity = identity
        self._reserved = 0
        self._head = (
            table_bytes(functions, rows, long_name_words) - ROW_BYTES * rows - WORD_BYTES * long_name_words
        )

    def make_some(self) -> Table | None:
        """Reserve some more of the memory before the first row; return the table when all of that is reserved.

        Raises ``OSError`` where there is no memory.
        """
        end = min(self._head, self._reserved + 2 * _RESERVE_STEP)
        self._memory.reserve(self._reserved, end)
        self._reserved = end
        return self._create() if end == self._head else None

    def make(self) -> Table:
        """Return the table, whatever time that takes. Raises ``OSError`` where there is no memory."""
        while (table := self.make_some()) is None:
            pass
        return table

    def _create(self) -> Table:
        content = np.frombuffer(self._memory.buffer, np.uint8)
        key = np.frombuffer(secrets.token_bytes(16), np.uint64)
        words = np.array([*key, *self._identity], np.uint64)
        _check(self._functions.create(content.ctypes.data, len(content), *self._sizes, words.ctypes.data))
        return Table(self._functions, self._memory)


def table_bytes(functions: TableFunctions, rows: int, long_name_words: int) -> int:
    """Return the bytes of memory that a table of this size takes."""
    return _check(functions.bytes(rows, long_name_words))


def _check(code: int) -> int:
    if code == _FULL:
        raise TableFull
    if code == _ARGUMENTS:
        raise ValueError("names and counts do not fit together, or a table cannot be so large")
    if code < 0:
        raise TableFailure(_ERRORS.get(code, f"error {code}"))
    return code
