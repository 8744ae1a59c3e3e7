"""The header field with the strongest clues: ``subject:prize +4.12, from:ann@example.org -2.05``.

Rules: whoever wrote the message chose its tokens, so of a token only letters, digits and a few marks go into the
field as they are, every other byte as ``%`` and two digits. What is left can end no line, open no comment, string,
tag or encoded word, and hold no separator of this field or of the verdict's own. A field has at most ``CLUES``
clues, one a line, lines of at most 78 characters (RFC 5322 2.1.1), ``LONGEST`` in all.
"""

from __future__ import annotations

import string
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue

CLUES = 8
LONGEST = 500
"""No value is longer, in bytes, its folds included."""

_TOKEN = 48  # of a token as it is written: so the first line, after the name of the field, has 77 at most
_CUT = "..."
_FOLD = ",\r\n\t"
_SAFE = (string.ascii_letters + string.digits + "!$'*+-./:>@^_|~").encode()
_WRITTEN = [chr(byte) if byte in _SAFE else f"%{byte:02X}" for byte in range(256)]


def clues_value(clues: Sequence[Clue]) -> str:
    """The value of the field for ``clues``, the strongest first; empty where there are none."""
    return _FOLD.join(f"{_written(clue.token)} {_weight(clue.log_ratio)}" for clue in clues[:CLUES])


def _written(token: bytes) -> str:
    """A token, not longer than ``_TOKEN`` and cut between two bytes of it."""
    if len(token) <= _TOKEN and not token.translate(None, _SAFE):  # most are: a quarter of the time
        return token.decode("ascii")
    pieces = [_WRITTEN[byte] for byte in token[:_TOKEN]]
    if len(token) <= _TOKEN and sum(map(len, pieces)) <= _TOKEN:
        return "".join(pieces)
    room = _TOKEN - len(_CUT)
    kept = ""
    for piece in pieces:
        if len(kept) + len(piece) > room:
            break
        kept += piece
    return kept + _CUT


def _weight(log_ratio: float) -> str:
    """Nats with two decimals, in at most nine characters."""
    return f"{log_ratio:+.2f}" if abs(log_ratio) < 10_000 else f"{log_ratio:+.1e}"
