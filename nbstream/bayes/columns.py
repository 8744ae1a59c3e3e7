"""The names of the columns of a model: a class that people teach, or what was learned without them.

Rules: the settings need these names, so no numpy is imported here.
"""

from __future__ import annotations

import re

CLASSES = ("ham", "spam")
"""The labels: what a score tells apart. Arrays of counts have them in this order, before any kinds of ham."""

PLAIN = "ham"
"""The kind of all ham that is of no other kind."""

CLASS_NAME = r"[a-z][a-z0-9-]{0,30}"
"""The pattern of the name of a class: ham, spam or a kind."""

_COLUMN = re.compile(rf"{CLASS_NAME}|auto-(ham|spam):[0-9]{{1,15}}")


def is_column(name: str) -> bool:
    """Return whether a model may have a column of this name."""
    return _COLUMN.fullmatch(name) is not None


def label_of(column: str) -> str:
    """Return the label of the messages of a column: those of every one but spam are ham."""
    return "spam" if column == "spam" or column.startswith("auto-spam:") else PLAIN


def automatic_columns(generation: int) -> tuple[str, str]:
    """Return the columns of what is learned without people, in the order of ``CLASSES``.

    To forget all of that is to begin the next generation. The name of no class has a colon.
    """
    return f"auto-{CLASSES[0]}:{generation}", f"auto-{CLASSES[1]}:{generation}"


def is_automatic(column: str) -> bool:
    """Return whether the column has what was learned without people."""
    return ":" in column


def kind_of(column: str) -> str:
    """Return the kind of the messages of a column; empty for spam, for plain ham, and for an automatic one."""
    return "" if column in CLASSES or is_automatic(column) else column
