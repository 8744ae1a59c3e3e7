"""Loads the native library, and refuses one that does not fit.

Rules: a library is used as a whole or not at all. It fits where its checksum of the interface and the version
is that of ``interface.h`` beside this module and of this version of nbstream.
"""

from __future__ import annotations

import ctypes
import struct
from pathlib import Path

from nbstream import __version__

_FOLDER = Path(__file__).parent
LIBRARY_FILE = _FOLDER / "libnbstream_native.so"
"""Where the build puts the library."""

_ELF_64_BITS = b"\x7fELF\x02"
_ELF_HEADER = struct.Struct("=40xQ10xHH2x")  # where the table of sections begins, and its size

_INTERFACE_FILE = _FOLDER / "interface.h"


class LibraryUnfit(Exception):
    """The native library is missing, cannot be loaded, or was built for another interface."""


def load_library(file: Path = LIBRARY_FILE) -> ctypes.CDLL:
    """Return the library in ``file``, whose functions release the interpreter lock. Raises ``LibraryUnfit``."""
    if not file.exists():
        raise LibraryUnfit("the native library was not built")
    try:
        if not _is_whole(file):
            raise LibraryUnfit("the file of the native library is cut")
        library = ctypes.CDLL(str(file))
        library.nbn_interface_checksum.restype = ctypes.c_uint64
        checksum: int = library.nbn_interface_checksum()
    except (OSError, AttributeError) as error:
        raise LibraryUnfit(f"the native library cannot be loaded: {error}") from error
    if checksum != interface_checksum():
        raise LibraryUnfit("the native library was built for another version of nbstream")
    return library


def _is_whole(file: Path) -> bool:
    """Return whether the file has its end, the table of sections: to map one that is cut kills the process."""
    with file.open("rb") as content:
        head = content.read(_ELF_HEADER.size)
    if len(head) < _ELF_HEADER.size or not head.startswith(_ELF_64_BITS):
        return True  # the loader says what it thinks of it
    sections_start, section_bytes, sections = _ELF_HEADER.unpack(head)
    return bool(sections_start + section_bytes * sections <= file.stat().st_size)


def interface_checksum() -> int:
    """Return the checksum of the interface: FNV-1a with 64 bits of ``interface.h`` and the version."""
    checksum = 0xCBF29CE484222325
    for byte in _INTERFACE_FILE.read_bytes() + __version__.encode():
        checksum = (checksum ^ byte) * 0x100000001B3 % (1 << 64)
    return checksum
