"""The header field with the strongest clues: ``subject:prize +4.12, from:ann@example.org -2.05``.

Rules: the writer of a message chooses its tokens. Therefore only letters, digits and a few marks of a token go
into the field as they are, and every other byte as ``%`` and two hexadecimal digits. Such a token can neither end
a line, nor open a comment, a string, a tag or an encoded word, nor hold a separator of this field or of the
verdict's field. A field has at most ``MAX_CLUES`` clues, one on each line, lines of at most 78 characters (RFC
5322 2.1.1), and at most ``MAX_VALUE_BYTES`` in all.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue

MAX_CLUES = 8
MAX_VALUE_BYTES = 500
"""The longest value in bytes, with its folds."""

# The characters of a token as it is written: with these, the first line has at most 77, name of the field
# included.
_MAX_TOKEN_CHARACTERS = 48
_ELLIPSIS = "..."
_FOLD = ",\r\n\t"
_SAFE_BYTES = (string.ascii_letters + string.digits + "!$'*+-./:>@^_|~").encode()
_ESCAPED_BYTES = [chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in range(256)]


def clues_field_value(clues: Sequence[Clue]) -> str:
    """Return the value of the field for ``clues``, the strongest first. It is empty where there are none."""
    return _FOLD.join(
        f"{escape_token(clue.token)} {_format_log_ratio(clue.log_ratio)}" for clue in clues[:MAX_CLUES]
    )


def escape_token(token: bytes) -> str:
    """Return the token escaped, and cut between two of its bytes to at most 48 characters, without a space."""
    if len(token) <= _MAX_TOKEN_CHARACTERS and not token.translate(None, _SAFE_BYTES):
        return token.decode("ascii")  # most tokens need no escape, and this way is much shorter
    escaped_bytes = [_ESCAPED_BYTES[byte] for byte in token[:_MAX_TOKEN_CHARACTERS]]
    if len(token) <= _MAX_TOKEN_CHARACTERS and sum(map(len, escaped_bytes)) <= _MAX_TOKEN_CHARACTERS:
        return "".join(escaped_bytes)
    max_length = _MAX_TOKEN_CHARACTERS - len(_ELLIPSIS)
    start = ""
    for escaped_byte in escaped_bytes:
        if len(start) + len(escaped_byte) > max_length:
            break
        start += escaped_byte
    return start + _ELLIPSIS


def _format_log_ratio(log_ratio: float) -> str:
    """Return the log-ratio in nats with two decimals, in at most nine characters."""
    return f"{log_ratio:+.2f}" if abs(log_ratio) < 10_000 else f"{log_ratio:+.1e}"
