"""Header fields on a message as it came, whatever its line ends are: for programs that want it back as it was.

Rules: the body keeps every byte; what is above it has the line ends of its first line. Where the header ends is
what ``header_fields.canonical`` would make of it too, so that no field that was looked at stays behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.mail import header_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

# The end of a line and the start of an empty one; the CR and LF of CRLF are neither.
_BLANKS = (b"\n\n", b"\n\r", b"\r\r")
_FIRST_END = re.compile(rb"\r\n|\r|\n")


def split(raw: bytes) -> tuple[bytes, bytes]:
    """The header with its empty line, if it has one, and the body."""
    blank = 0 if raw[:1] in {b"\r", b"\n"} else len(raw)
    for each in _BLANKS:
        found = raw.find(each, 0, blank + 1)  # 50 MB without an empty line: 0.15 s, by a pattern 1 s
        blank = blank if found < 0 else min(blank, found + 1)
    end = blank + (2 if raw.startswith(b"\r\n", blank) else 1)
    return raw[:end], raw[end:]


def marked(head: bytes, new: Iterable[tuple[str, str]], stripped: Iterable[str], guard: str) -> bytes:
    """A header as ``split`` gives it without the fields of the ``stripped`` names, with the ``new`` ones on top.

    A first line that continues nothing gets the field ``guard`` to continue.
    """
    first = _FIRST_END.search(head)
    own = header_fields.guard(header_fields.strip(header_fields.canonical(head), stripped), guard)
    found = header_fields.prepend(own, new)
    return found.replace(b"\r\n", b"\n") if first and first[0] == b"\n" else found
