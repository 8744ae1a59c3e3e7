"""The arrays of numpy as arguments of the native library."""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NOTHING = ctypes.c_char * 0


def pointer_to(array: NDArray[Any]) -> ctypes.Array[ctypes.c_char] | int:
    """Return the argument that points to the items of a contiguous array.

    ``array.ctypes.data`` takes four times as long, but needs no array that can be written.
    """
    return _NOTHING.from_buffer(array.data) if array.flags.writeable else array.ctypes.data
