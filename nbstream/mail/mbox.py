"""The lines between the messages of an mbox (mboxrd: ``>From `` loses its ``>``)."""

from __future__ import annotations

import io
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


def message_of(part: bytes) -> bytes:
    """Return a message from its part of an mbox: unquoted, and without the empty line that is put after it."""
    lines = io.BytesIO()  # a list of short lines would take twenty times the memory
    lines.writelines(map(_unquoted, io.BytesIO(part)))
    message = lines.getvalue()
    for end in (b"\n\n", b"\n\r\n"):
        if message.endswith(end):
            return message.removesuffix(end[1:])
    return message


def _unquoted(line: bytes) -> bytes:
    return line[1:] if line.startswith(b">") and line.lstrip(b">").startswith(MBOX_START) else line
