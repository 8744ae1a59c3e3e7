"""The lines between the messages of an mbox (mboxrd: ``>From `` loses its ``>``)."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

MBOX_START = b"From "
"""What an mbox begins with."""

_SEPARATOR = re.compile(rb"From .*\d\d:\d\d")  # with its date; "From the top" is text
_LINE_OF_START = b"\n" + MBOX_START
_QUOTE = b">" + MBOX_START
_BLANK_LINES = frozenset({b"\n", b"\r\n"})


def is_separator(line: bytes) -> bool:
    """Return whether a line, which stands after a blank one, begins the next message."""
    return _SEPARATOR.match(line) is not None


def is_blank(line: bytes) -> bool:
    """Return whether a line with its end is empty."""
    return line in _BLANK_LINES


def split(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the messages of an mbox whose first line was read; ``blocks`` are the rest, each of whole lines."""
    part = bytearray(b"\n")  # the end of the line that begins a message, and what follows it
    for block in blocks:
        start = len(part) - 1
        part += block
        while (start := part.find(_LINE_OF_START, start)) >= 0:
            is_after_blank = not start or part.endswith((b"\n", b"\n\r"), 0, start)
            separator = _SEPARATOR.match(part, start + 1) if is_after_blank else None
            if separator is None:
                start += 1
                continue
            yield message_of(bytes(part[1 : start + 1]))
            end = part.find(b"\n", separator.end())
            del part[: end if end >= 0 else len(part)]
            start = 0
    yield message_of(bytes(part[1:]))


def message_of(part: bytes) -> bytes:
    """Return a message from its part of an mbox: unquoted, and without the empty line that is put after it."""
    message = _unquoted(part) if _QUOTE in part else part
    for end in (b"\n\n", b"\n\r\n"):
        if message.endswith(end):
            return message.removesuffix(end[1:])
    return message


def _unquoted(part: bytes) -> bytes:
    lines = io.BytesIO()  # a list of short lines would take twenty times the memory
    lines.writelines(map(_unquoted_line, io.BytesIO(part)))
    return lines.getvalue()


def _unquoted_line(line: bytes) -> bytes:
    return line[1:] if line.startswith(b">") and line.lstrip(b">").startswith(MBOX_START) else line
