"""Which engine takes messages apart and scores them: Python, the specification, or the native library.

Rules: this is the only module that chooses. It is asked once at the start of a process; whoever has a faster way
for the native engine looks at ``Engine.native_library`` and at nothing else. Both engines give the same results to
the last bit, so the choice changes the speed alone.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from nbstream.engine.native_library import LIBRARY_FILE, LibraryUnfit, load_library
from nbstream.errors import ConfigError

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Mapping
    from pathlib import Path

EngineChoice: TypeAlias = Literal["auto", "python", "native"]
"""What can be asked for; ``auto`` is ``native`` where the library fits, else ``python``."""

ENVIRONMENT = "NBSTREAM_ENGINE"
"""The variable of the environment that is stronger than the configuration, unless it is empty."""

_REMEDY = "install nbstream again where cargo is found or from a wheel for this platform, or choose engine: auto"


@dataclass(frozen=True, slots=True)
class Engine:
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


def choose_engine(
    wanted: EngineChoice,
    tokenizer_version: int,
    *,
    file: Path = LIBRARY_FILE,
    environment: Mapping[str, str] = os.environ,
) -> Engine:
    """Return the engine that the configuration asks for, or the environment, which is stronger.

    The library fits where it was built for this interface and for the tokens of ``tokenizer_version``. Raises
    ``ConfigError`` where the native engine was asked for and does not fit, and for an environment that asks for
    none of the three.
    """
    by_environment = environment.get(ENVIRONMENT)
    asked = by_environment or wanted
    source = f"{ENVIRONMENT}={asked}" if by_environment else f"engine: {asked}"
    if asked not in get_args(EngineChoice):
        raise ConfigError(f"{source}: must be auto, python or native")
    if asked == "python":
        return Engine(None, source)
    try:
        return Engine(_load(file, tokenizer_version), source)
    except LibraryUnfit as error:
        if asked == "native":
            raise ConfigError(f"{source} is impossible: {error}; {_REMEDY}") from error
        return Engine(None, str(error))


def _load(file: Path, tokenizer_version: int) -> ctypes.CDLL:
    library = load_library(file)
    if library.nbn_tokenizer_version() != tokenizer_version:
        raise LibraryUnfit("the native library makes the tokens of another version of nbstream")
    return library
