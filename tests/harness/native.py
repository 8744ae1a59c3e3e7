"""The native library for tests: where it was not built, they are skipped, and fail in CI."""

from __future__ import annotations

import ctypes

from nbstream.engine.choice import LIBRARY_FILE, load_library
from tests.harness.programs import missing


def native_library() -> ctypes.CDLL:
    """Return the native library."""
    if not LIBRARY_FILE.exists():
        missing("the native library")
    return load_library()
