"""The names of users as clients send them."""

from __future__ import annotations

import re

_UNPRINTABLE = re.compile(r"[^!-~]")
_MAX_LENGTH = 100


def printable_user(raw: bytes) -> str:
    """Return the name in printable ASCII, with ``?`` for all else, and at most 100 characters of it."""
    return _UNPRINTABLE.sub("?", raw.decode("utf-8", "replace"))[:_MAX_LENGTH]
