"""Turns the header as it is written into tokens: each word of it together with the marks around it.

The tokens of ``header_tokens`` say what a field means. These say how it is spelled, which differs between the
programs that write mail: spaces, quotes, folds, the case of a name. They are a second look at the header, and
therefore vote as a group of their own. They do most of what character 4-grams of the raw header do, with a quarter
of the tokens; see docs/experiments.md, "Header as it is written".

Rules: a field that another filter or a mailbox wrote is never read. The work is bounded by ``_MAX_BYTES``.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nbstream.tokens.header_tokens import MAX_FIELDS, MAX_VALUE_BYTES, is_added_on_arrival

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.mail.header_fields import HeaderField

RAW_HEADER_PREFIX = b"raw:"

_MAX_BYTES = 16 * 1024
# A token has neither white space nor control characters, and is UTF-8: a space becomes "_", a tab "~", each other
# control character "^" and each byte beyond ASCII "?". Line ends are removed: how a field is folded shows in the
# white space that begins the next line. The line feed is left to separate the fields, which begin with "^".
_FIELD_START = b"\n^"
_VISIBLE = bytes(
    {0x20: 0x5F, 0x09: 0x7E, 0x0A: 0x0A}.get(c, 0x5E if c < 0x20 or c == 0x7F else 0x3F if c > 0x7F else c)
    for c in range(256)
)
# Up to 12 letters and digits of a word, with 1 to 3 other characters before it and up to 3 behind it. The pattern
# looks ahead and consumes one character alone, so that the marks between two words belong to both of them.
_WORD_IN_CONTEXT = re.compile(rb"(?=([^A-Za-z0-9\n]{1,3}[A-Za-z0-9]{1,12}[^A-Za-z0-9\n]{0,3}))[^A-Za-z0-9\n]")


def raw_header_tokens(fields: Sequence[HeaderField], limit: int) -> tuple[bytes, ...]:
    """Return at most ``limit`` distinct tokens of the header fields as they are written, in their order."""
    written = _FIELD_START + _FIELD_START.join(
        [
            field.name_as_written.encode("ascii", "replace")
            + b":"
            + field.value[:MAX_VALUE_BYTES].replace(b"\r\n", b"")
            for field in fields[:MAX_FIELDS]
            if not is_added_on_arrival(field.name[:80])
        ]
    )
    words = dict.fromkeys(_WORD_IN_CONTEXT.findall(written[:_MAX_BYTES].translate(_VISIBLE)))
    return tuple([RAW_HEADER_PREFIX + word for word in words][:limit])
