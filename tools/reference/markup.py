"""The text of pages: docstrings and help texts as Markdown, and Markdown tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by `make reference` from the code: change the code, not this file. -->\n"


class Undocumented(Exception):
    """Something in the code has no text for the reference; the message of the error names it."""


def paragraph(docstring: str) -> str:
    """Return a docstring as one line of Markdown."""
    return " ".join(inspect.cleandoc(docstring).split()).replace("``", "`")


def first_sentence(docstring: str) -> str:
    """Return the first sentence of a docstring as Markdown, up to its full stop or semicolon and without it."""
    return paragraph(docstring).partition(". ")[0].partition(";")[0].rstrip(".")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; a ``|`` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def plain(text: str) -> str:
    """Return a help text, which is plain text, as Markdown."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
