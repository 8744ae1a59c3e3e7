"""Text files are read and written as UTF-8, whatever the locale of the machine is."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = sorted([*ROOT.glob("nbstream/**/*.py"), *ROOT.glob("tools/**/*.py")])


def lines_without_encoding(source: str) -> list[int]:
    """The lines of calls of ``Path.read_text`` and ``Path.write_text`` that leave the encoding to the locale."""
    positions = {"read_text": 0, "write_text": 1}  # of the argument ``encoding``
    return [
        call.lineno
        for call in ast.walk(ast.parse(source))
        if isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in positions
        and len(call.args) <= positions[call.func.attr]
        and not any(keyword.arg == "encoding" for keyword in call.keywords)
    ]


def test_every_text_file_is_read_and_written_with_an_encoding() -> None:
    calls = {
        str(module.relative_to(ROOT)): lines
        for module in MODULES
        if (lines := lines_without_encoding(module.read_text(encoding="utf-8")))
    }

    assert calls == {}
