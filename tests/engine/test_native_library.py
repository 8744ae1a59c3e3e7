"""The native library is used as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.engine.choice import LIBRARY_FILE, LibraryUnfit, load_library
from tests.harness.native import native_library


def test_a_missing_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryUnfit, match="not built"):
        load_library(tmp_path / "nothing.so")


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("no library")
    with pytest.raises(LibraryUnfit, match="cannot be loaded"):
        load_library(file)


def test_a_library_that_is_cut_is_refused_before_it_is_mapped(tmp_path: Path) -> None:
    native_library()
    whole = LIBRARY_FILE.read_bytes()
    for length in (1000, len(whole) // 2, len(whole) - 1):
        file = tmp_path / f"{length}.so"
        file.write_bytes(whole[:length])
        with pytest.raises(LibraryUnfit, match="is cut"):
            load_library(file)
