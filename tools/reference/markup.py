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

    def line(cells: Sequence[str]) -> str:
        return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n"

    return line(head) + f"|{'---|' * len(head)}\n" + "".join(map(line, rows))


def definitions(entries: Iterable[tuple[str, str, str]]) -> str:
    """Return a Markdown list of names, each with a remark in parentheses, which may be empty, and its meaning."""
    return "".join(
        f"- `{name}`{f' ({remark})' * bool(remark)}{f': {meaning}' * bool(meaning)}\n"
        for name, remark, meaning in entries
    )


def plain(text: str) -> str:
    """Return a help text, which is plain text, as Markdown."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
