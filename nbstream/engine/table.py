"""The table of the native library: the counts of names in the memory of this process. See ``native/src/table``.

One thread at a time uses a table; the library sees to that.
"""

from __future__ import annotations

import ctypes
import secrets
from typing import TYPE_CHECKING, Any, NamedTuple

from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


_NOTHING = ctypes.c_char * 0


def pointer_to(array: NDArray[Any]) -> ctypes.Array[ctypes.c_char] | int:
    """Return the argument that points to the items of a contiguous array.

    ``array.ctypes.data`` takes four times as long, but needs no array that can be written.
    """
    return _NOTHING.from_buffer(array.data) if array.flags.writeable else array.ctypes.data


_CLASSES = 2
_FAULT = -3


class TableUsage(NamedTuple):
    """How many names have counts, the sums included, and the bytes of these names and of the memory in use."""

    names: int
    sums: int
    name_bytes: int
    bytes_used: int


class Table:
    """An empty table with room for so many ``names`` and some more; it grows by itself.

    Its ``columns`` are ham, spam and the kinds of ham. Its methods raise ``ValueError`` where names and counts do
    not fit together.
    """

    def __init__(self, library: ctypes.CDLL, names: int = 0, columns: int = _CLASSES) -> None:
        self._handle = None
        self._library = library
        self._columns = columns
        _declare(library)
        self._handle = library.nbn_table_new(secrets.token_bytes(16), names, columns)
        if not self._handle:
            raise ValueError(f"a table cannot have {names} names")

    def __del__(self) -> None:
        if self._handle:
            self._library.nbn_table_free(self._handle)

    @property
    def handle(self) -> int:
        """The handle of the table for other functions of the library; only while this object is kept."""
        assert self._handle is not None
        return int(self._handle)

    def describe(self) -> TableUsage:
        """Return how much is in the table."""
        out = np.empty(4, np.int64)
        _check(self._library.nbn_table_describe(self._handle, pointer_to(out)))
        return TableUsage(*out.tolist())

    def look_up(self, joined: bytes, count: int, *, all_columns: bool = False) -> NDArray[np.int64]:
        """Return the counts of ham and spam of ``count`` names, shape (count, 2), or with ``all_columns`` of each.

        ``joined`` are the names, separated by line feeds. A name that is unknown has zeros.
        """
        columns = self._columns if all_columns else 0
        rows = np.empty((count, columns or _CLASSES), np.int64)
        arguments = self._handle, joined, len(joined), pointer_to(rows), count, columns
        _check(self._library.nbn_table_look_up(*arguments))
        return rows

    def read(self) -> tuple[bytes, NDArray[np.int64]]:
        """Return the names that have counts, separated by line feeds, and their counts, shape (names, columns)."""
        usage = self.describe()
        capacity = usage.name_bytes + usage.names  # with the line feeds
        rows, names = np.empty((usage.names, self._columns), np.int64), np.empty(capacity, np.uint8)
        length = np.zeros(1, np.uint64)
        found = self._library.nbn_table_read(
            *(self._handle, pointer_to(rows), *rows.shape, pointer_to(names), capacity, pointer_to(length))
        )
        _check(found)
        return names[: int(length[0])].tobytes(), rows

    def set_counts(self, joined: bytes, rows: NDArray[np.int64]) -> None:
        """Set the counts of the names in all columns; a name whose counts are all zero is forgotten."""
        rows = np.ascontiguousarray(rows, np.int64)
        arguments = self._handle, joined, len(joined), pointer_to(rows), *rows.shape
        _check(self._library.nbn_table_set_counts(*arguments))

    def set_column(self, joined: bytes, column: int, counts: NDArray[np.int64]) -> None:
        """Set the counts of the names in one column."""
        counts = np.ascontiguousarray(counts, np.int64)
        arguments = self._handle, joined, len(joined), pointer_to(counts), len(counts), column
        _check(self._library.nbn_table_set_column(*arguments))

    def add_column(self) -> None:
        """Add a column, whose counts are zero."""
        _check(self._library.nbn_table_add_column(self._handle))
        self._columns += 1


def _declare(library: ctypes.CDLL) -> None:
    """Say which arguments the functions take."""
    pointer, size, blob = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p
    arguments = {
        "describe": [pointer, pointer],
        "look_up": [pointer, blob, size, pointer, size, size],
        "read": [pointer, pointer, size, size, pointer, size, pointer],
        "set_counts": [pointer, blob, size, pointer, size, size],
        "set_column": [pointer, blob, size, pointer, size, ctypes.c_uint32],
        "add_column": [pointer],
    }
    for name, types in arguments.items():
        function = getattr(library, f"nbn_table_{name}")
        function.argtypes, function.restype = types, ctypes.c_int64
    word = ctypes.c_uint64
    library.nbn_table_new.argtypes, library.nbn_table_new.restype = [blob, word, word], pointer
    library.nbn_table_free.argtypes, library.nbn_table_free.restype = [pointer], None


def _check(code: int) -> None:
    if code == _FAULT:
        raise RuntimeError("a fault in the native library")
    if code < 0:
        raise ValueError("names and counts do not fit together, or there are too many names")
