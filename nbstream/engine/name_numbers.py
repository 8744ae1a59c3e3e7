"""Numbers for names: each new name gets the next number.

Rules: what the native library does is the same. Whoever counts many names keeps arrays by their numbers.
"""

from __future__ import annotations

import ctypes
import secrets
from collections import defaultdict
from itertools import count, islice
from typing import TYPE_CHECKING

from nbstream.engine.table import pointer_to
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class NameNumbers:
    """The numbers of names, from 0 on in the order in which the names came."""

    def __init__(self) -> None:
        self._numbers = defaultdict[bytes, int](count().__next__)

    def __len__(self) -> int:
        return len(self._numbers)

    def number(self, joined: bytes, length: int) -> NDArray[np.int64]:
        """Return the numbers of the ``length`` names in ``joined``, which are separated by line feeds."""
        names = joined.split(b"\n") if length else []
        return np.fromiter(map(self._numbers.__getitem__, names), np.int64, length)

    def joined(self, first: int = 0) -> bytes:
        """Return the names from number ``first`` on, separated by line feeds."""
        return b"\n".join(islice(self._numbers, first, None))


class NativeNameNumbers(NameNumbers):
    """The same by the native library. Raises ``ValueError`` where names and their number do not fit together."""

    def __init__(self, library: ctypes.CDLL) -> None:
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        self._length = 0
        self._number, self._joined = library.nbn_names_number, library.nbn_names_joined
        self._free = library.nbn_names_free
        library.nbn_names_new.argtypes, library.nbn_names_new.restype = [ctypes.c_char_p], pointer
        self._number.argtypes = [pointer, ctypes.c_char_p, size, pointer, size]
        self._joined.argtypes = [pointer, size, ctypes.c_char_p, size]
        self._number.restype = self._joined.restype = ctypes.c_int64
        self._free.argtypes, self._free.restype = [pointer], None
        self._handle = library.nbn_names_new(secrets.token_bytes(16))

    def __del__(self) -> None:
        self._free(self._handle)

    def __len__(self) -> int:
        return self._length

    def number(self, joined: bytes, length: int) -> NDArray[np.int64]:
        """Return the numbers of the ``length`` names in ``joined``, which are separated by line feeds."""
        numbers = np.empty(length, np.int64)
        known = self._number(self._handle, joined, len(joined), pointer_to(numbers), length)
        if known < 0:
            raise ValueError(f"{length} names are others, or too many")
        self._length = known
        return numbers

    def joined(self, first: int = 0) -> bytes:
        """Return the names from number ``first`` on, separated by line feeds."""
        size = self._joined(self._handle, first, None, 0)
        out = ctypes.create_string_buffer(size)
        self._joined(self._handle, first, out, size)
        return out.raw


def make_name_numbers(library: ctypes.CDLL | None) -> NameNumbers:
    """Return an object without names: a native one where there is a library."""
    return NativeNameNumbers(library) if library else NameNumbers()
