"""The table of the native library, for tests that need it."""

from __future__ import annotations

import ctypes

import pytest

from nbstream.engine.library import LIBRARY_FILE, load_library
from nbstream.engine.table import TableFunctions


def native_library() -> ctypes.CDLL:
    """Return the native library; skip the test where it was not built."""
    if not LIBRARY_FILE.exists():
        pytest.skip("the native library was not built here: there is no cargo")
    return load_library()


def table_functions() -> TableFunctions:
    """Return the functions of the native library on tables; skip the test where it was not built."""
    return TableFunctions(native_library())
