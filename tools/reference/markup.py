"""The text of pages: docstrings and help texts as Markdown, and Markdown tables."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Sequence

NOTICE = "<!-- Made by `make reference` from the code: change the code, not this file. -->\n"


class Undocumented(Exception):
    """Something in the code has no text that a reader of the reference could be given; the message names it."""


def paragraph(docstring: str) -> str:
    """A docstring as one line of Markdown."""
    return " ".join(inspect.cleandoc(docstring).split()).replace("``", "`")


def first_sentence(docstring: str) -> str:
    """The first sentence of a docstring as Markdown, up to its full stop or semicolon and without it."""
    return paragraph(docstring).partition(". ")[0].partition(";")[0].rstrip(".")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; a ``|`` in a cell is escaped."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |\n" for line in lines)


def plain(text: str) -> str:
    """A help text, which is no markup, as Markdown."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
