"""The native library for tests, which are skipped where it was not built."""

from __future__ import annotations

import ctypes
import os

import pytest

from nbstream.engine.library import LIBRARY_FILE, load_library


def native_library() -> ctypes.CDLL:
    """The library; without one a visible skip, and a failure where ``CI=true``."""
    if not LIBRARY_FILE.exists():
        if os.environ.get("CI") == "true":
            pytest.fail("the native library was not built")
        pytest.skip("the native library was not built here: there is no cargo")
    return load_library()
