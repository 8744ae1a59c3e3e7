"""Header fields on a message as it came, whatever its line ends are: for programs that want it back as it was.

Rules: the body keeps every byte; what is above it has the line ends of its first line. Where the header ends is
what ``headers.canonical`` would make of it too, so that no field that was looked at stays behind.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.mail import headers

if TYPE_CHECKING:
    from collections.abc import Iterable

# Atomic: the CRLF of one line is not taken for two ends.
_HEAD_END = re.compile(rb"(?>\A|\r\n|\r|\n)(?>\r\n|\r|\n)")
_FIRST_END = re.compile(rb"\r\n|\r|\n")


def split(raw: bytes) -> tuple[bytes, bytes]:
    """The header with its empty line, if it has one, and the body."""
    blank = _HEAD_END.search(raw)
    end = blank.end() if blank else len(raw)
    return raw[:end], raw[end:]


def marked(head: bytes, new: Iterable[tuple[str, str]], stripped: Iterable[str], guard: str) -> bytes:
    """A header as ``split`` gives it without the fields of the ``stripped`` names, with the ``new`` ones on top.

    A first line that continues nothing gets the field ``guard`` to continue.
    """
    first = _FIRST_END.search(head)
    own = headers.guard(headers.strip(headers.canonical(head), stripped), guard)
    found = headers.prepend(own, new)
    return found.replace(b"\r\n", b"\n") if first and first[0] == b"\n" else found
