"""The tables of the native library are what this interpreter says."""

from __future__ import annotations

from tools import native_tables


def test_the_tables_are_what_python_says() -> None:
    for file, source in native_tables.sources().items():
        assert file.read_text() == source, f"{file.name}: run python -m tools.native_tables"
