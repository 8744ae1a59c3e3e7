"""The header field with the strongest clues: ``subject:prize +4.12, from:ann@example.org -2.05``.

Rules: whoever wrote the message chose its tokens, so of a token only letters, digits and a few marks go into the
field as they are, every other byte as ``%`` and two digits. What is left can end no line, open no comment, string,
tag or encoded word, and hold no separator of this field or of the verdict's own. A field has at most ``MAX_CLUES``
clues, one a line, lines of at most 78 characters (RFC 5322 2.1.1), ``MAX_VALUE_BYTES`` in all.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue

MAX_CLUES = 8
MAX_VALUE_BYTES = 500
"""No value is longer, in bytes, its folds included."""

_MAX_TOKEN_CHARACTERS = (
    48  # of a token as it is written: so the first line, after the name of the field, has 77 at most
)
_ELLIPSIS = "..."
_FOLD = ",\r\n\t"
_SAFE_BYTES = (string.ascii_letters + string.digits + "!$'*+-./:>@^_|~").encode()
_ESCAPED_BYTES = [chr(byte) if byte in _SAFE_BYTES else f"%{byte:02X}" for byte in range(256)]


def clues_field_value(clues: Sequence[Clue]) -> str:
    """The value of the field for ``clues``, the strongest first; empty where there are none."""
    return _FOLD.join(
        f"{_escape_token(clue.token)} {_format_log_ratio(clue.log_ratio)}" for clue in clues[:MAX_CLUES]
    )


def _escape_token(token: bytes) -> str:
    """A token, not longer than ``_MAX_TOKEN_CHARACTERS`` and cut between two bytes of it."""
    if len(token) <= _MAX_TOKEN_CHARACTERS and not token.translate(
        None, _SAFE_BYTES
    ):  # most are: a quarter of the time
        return token.decode("ascii")
    pieces = [_ESCAPED_BYTES[byte] for byte in token[:_MAX_TOKEN_CHARACTERS]]
    if len(token) <= _MAX_TOKEN_CHARACTERS and sum(map(len, pieces)) <= _MAX_TOKEN_CHARACTERS:
        return "".join(pieces)
    room = _MAX_TOKEN_CHARACTERS - len(_ELLIPSIS)
    kept = ""
    for piece in pieces:
        if len(kept) + len(piece) > room:
            break
        kept += piece
    return kept + _ELLIPSIS


def _format_log_ratio(log_ratio: float) -> str:
    """Nats with two decimals, in at most nine characters."""
    return f"{log_ratio:+.2f}" if abs(log_ratio) < 10_000 else f"{log_ratio:+.1e}"
