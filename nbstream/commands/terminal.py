"""What may reach a terminal: no part of a message, and no file's name, can move its cursor or change its title."""

from __future__ import annotations

import sys


def printable(text: str) -> str:
    """``text`` without what could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def complain(problem: object) -> None:
    """Say on standard error what is wrong, in one line or, as a configuration's problems are, in several."""
    text = "\n".join(printable(line) for line in str(problem).split("\n"))
    print(f"nbstream: {text}", file=sys.stderr)
