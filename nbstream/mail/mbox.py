"""The lines between the messages of an mbox (mboxrd: ``>From `` loses its ``>``), and what programs note in it."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator

MBOX_START = b"From "
"""What an mbox begins with."""

# With a date, or with nothing at all, as Thunderbird writes it; "From the top" is text.
_SEPARATOR = re.compile(rb"From (?:.*\d\d:\d\d|[ \t]*(?=\r?\n|\Z))")
_FIRST_LINE = re.compile(rb"From (?![ \t]*:)[^\r\n]*(?:\r\n|\r|\n)")  # "From :" is a field, RFC 5322 4.5
# What mail programs write: Status and X-Status (c-client, Dovecot, mutt), X-Mozilla-Status (hexadecimal). Patterns
# that begin with a line feed take a tenth of the time of those that look for the beginnings of lines.
_STATUS = re.compile(rb"(?i)\n(?:X-)?Status:[ \t]*([A-Z]+)")
_MOZILLA_STATUS = re.compile(rb"(?i)\nX-Mozilla-Status:[ \t]*([0-9a-f]{1,8})")
_MOZILLA_EXPUNGED = 0x0008
_FOLDER_DATA = re.compile(rb"(?i)\nSubject:.*FOLDER INTERNAL DATA")
_LINE_OF_START = b"\n" + MBOX_START
_QUOTE = b">" + MBOX_START


def separator_end(raw: bytes) -> int:
    """Return where the line ends that separates ``raw`` from the message before it in an mbox; 0 without one.

    Programs that write into mailboxes pass it on as the first line of a message, and it has to stay the first.
    """
    line = _FIRST_LINE.match(raw)
    return line.end() if line else 0


def status_letters(header: bytes) -> str:
    """Return the letters of the status of a message, such as R for one that was read and D for a deleted one."""
    lines = b"\n" + header
    letters = b"".join(_STATUS.findall(lines)).decode()
    mozilla = _MOZILLA_STATUS.search(lines)
    return letters + "D" if mozilla and int(mozilla[1], 16) & _MOZILLA_EXPUNGED else letters


def is_folder_data(header: bytes) -> bool:
    """Return whether the message is one that a server keeps for itself in the folder."""
    return _FOLDER_DATA.search(b"\n" + header) is not None


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
