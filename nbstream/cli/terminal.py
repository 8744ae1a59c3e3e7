"""What may reach a terminal: no part of a message, and no file's name, can move its cursor or change its title."""

from __future__ import annotations

import sys
from datetime import datetime

from nbstream.cli.standard_streams import discard_buffer


def printable(text: str) -> str:
    """Return ``text`` with a question mark for each character that could move a terminal's cursor."""
    return "".join(c if c.isprintable() else "?" for c in text)


def print_error(problem: object) -> None:
    """Print a problem on standard error: on one line, or on several, as for the problems of a configuration."""
    print_note(f"nbstream: {problem}")


def print_note(text: str) -> None:
    """Print on standard error what is no result. What cannot be written is lost, and changes no exit code."""
    try:
        print("\n".join(map(printable, text.split("\n"))), file=sys.stderr, flush=True)
    except OSError:
        discard_buffer(sys.stderr)


def local_time(at: float) -> str:
    """Return a moment by the user's clock, to the second and with its offset, in a form that ``--since`` takes."""
    return datetime.fromtimestamp(at).astimezone().isoformat(timespec="seconds")
