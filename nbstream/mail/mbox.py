"""The lines between the messages of an mbox (mboxrd: ``>From `` loses its ``>``)."""

from __future__ import annotations

import re

MBOX_START = b"From "
"""What an mbox begins with."""

_SEPARATOR = re.compile(rb"From .*\d\d:\d\d")  # with its date; "From the top" is text
_BLANK_LINES = frozenset({b"\n", b"\r\n"})


def is_separator(line: bytes) -> bool:
    """Return whether a line, which stands after a blank one, begins the next message."""
    return _SEPARATOR.match(line) is not None


def is_blank(line: bytes) -> bool:
    """Return whether a line with its end is empty."""
    return line in _BLANK_LINES


def unquoted(line: bytes) -> bytes:
    """Return a line of a message as it was before it was put into the mbox."""
    return line[1:] if line.startswith(b">") and line.lstrip(b">").startswith(MBOX_START) else line


def join_lines(lines: list[bytes]) -> bytes:
    """Return a message of unquoted lines, without the empty line that an mbox puts after it."""
    return b"".join(lines[:-1] if len(lines) > 1 and is_blank(lines[-1]) else lines)
