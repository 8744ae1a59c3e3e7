"""The native library is used as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.engine.choice import LibraryUnfit, load_library


def test_a_missing_library_is_refused(tmp_path: Path) -> None:
    with pytest.raises(LibraryUnfit, match="not built"):
        load_library(tmp_path / "nothing.so")


def test_a_file_that_is_no_library_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "text.so"
    file.write_text("no library")
    with pytest.raises(LibraryUnfit, match="cannot be loaded"):
        load_library(file)
