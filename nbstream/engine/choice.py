"""Which engine takes messages apart and scores them: Python, the specification, or the native library.

Rules: this is the only module that chooses. It is asked once at the start of a process; whoever has a faster way
for the native engine looks at ``Engine.native_library`` and at nothing else. Both engines give the same results to
the last bit, so the choice changes the speed alone.
"""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from nbstream.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Mapping


# Loads the native library, and refuses one that does not fit.
#
# Rules: a library is used as a whole or not at all. It fits where it was built with this ``interface.h``, for this
# version of nbstream and for the tokens of this format: a checksum of all three says so.

_FOLDER = Path(__file__).parent
LIBRARY_FILE = _FOLDER / "libnbstream_native.so"
"""Where the build puts the library."""

_ELF_64_BITS = b"\x7fELF\x02"
_TOKENIZER_FILE = _FOLDER.parent / "tokens" / "__init__.py"  # ``MODEL_FORMAT`` is there
_INTERFACE_FILES = (_FOLDER / "interface.h", _TOKENIZER_FILE, _FOLDER.parent / "__init__.py")


class LibraryUnfit(Exception):
    """The native library is missing, cannot be loaded, or was built for another interface."""


def load_library(file: Path = LIBRARY_FILE) -> ctypes.CDLL:
    """Return the library in ``file``, whose functions release the interpreter lock. Raises ``LibraryUnfit``."""
    if not file.exists():
        raise LibraryUnfit("the native library was not built")
    try:
        content = file.read_bytes()
        # The table of sections is the end of the file; to map a file that is cut kills the process.
        start, size, number = struct.unpack_from("=40xQ10xHH", content)
        if content.startswith(_ELF_64_BITS) and start + size * number > len(content):
            raise LibraryUnfit("the file of the native library is cut")
        library = ctypes.CDLL(str(file))
        library.nbn_interface_checksum.restype = ctypes.c_uint64
        checksum: int = library.nbn_interface_checksum()
    except (OSError, AttributeError, struct.error) as error:
        raise LibraryUnfit(f"the native library cannot be loaded: {error}") from error
    if checksum != interface_checksum():
        raise LibraryUnfit("the native library was built for another version of nbstream")
    return library


def interface_checksum() -> int:
    """Return the checksum of the interface: FNV-1a with 64 bits of its files."""
    checksum = 0xCBF29CE484222325
    for byte in b"".join(file.read_bytes() for file in _INTERFACE_FILES):
        checksum = (checksum ^ byte) * 0x100000001B3 % (1 << 64)
    return checksum


ENVIRONMENT = "NBSTREAM_ENGINE"
"""The variable of the environment that asks for an engine, for tests and for finding faults."""

_REMEDY = "install nbstream again where cargo is found or from a wheel for this platform"


class Engine(NamedTuple):
    """The engine of a process: ``native_library`` is None for Python.

    ``reason`` says why it is this one.
    """

    native_library: ctypes.CDLL | None
    reason: str

    @property
    def name(self) -> Literal["python", "native"]:
        """What metrics and log call it."""
        return "python" if self.native_library is None else "native"

    def __str__(self) -> str:
        return f"{self.name} ({self.reason})"


PYTHON = Engine(None, "the specification")
"""The engine that is everywhere."""


def choose_engine(*, file: Path = LIBRARY_FILE, environment: Mapping[str, str] = os.environ) -> Engine:
    """Return the native engine where its library fits, else Python, unless the environment asks for one of them.

    Raises ``ConfigError`` where it asks for the native engine, which does not fit, or for another one.
    """
    asked = environment.get(ENVIRONMENT)
    source = f"{ENVIRONMENT}={asked}" if asked else ""
    if asked not in {None, "", "python", "native"}:
        raise ConfigError(f"{source}: must be python or native")
    if asked == "python":
        return Engine(None, source)
    try:
        return Engine(load_library(file), source or "its library fits")
    except LibraryUnfit as error:
        if asked == "native":
            raise ConfigError(f"{source} is impossible: {error}; {_REMEDY}") from error
        return Engine(None, str(error))
