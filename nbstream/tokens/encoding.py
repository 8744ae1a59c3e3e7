"""Tokens as bytes: UTF-8 without ASCII white space or control characters, at most ``LONGEST`` bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST = 64

# White space and control characters become "_"; the line feed stays, since it separates tokens meanwhile.
_CLEANED = bytes(c if (c > 32 and c != 127) or c == 10 else 95 for c in range(256))


def encoded(tokens: Sequence[str]) -> list[bytes]:
    """``tokens`` as bytes, cleaned and cut; as many, in their order."""
    if not tokens:
        return []
    found = "\n".join(tokens).encode("utf-8", "replace").translate(_CLEANED).split(b"\n")
    if len(found) != len(tokens):
        return encoded([token.replace("\n", "_") for token in tokens])
    if max(map(len, found)) > LONGEST:
        return [cut(token) for token in found]
    return found


def cut(text: bytes, longest: int = LONGEST) -> bytes:
    """``text`` up to the last whole character within ``longest`` bytes."""
    return text if len(text) <= longest else text[:longest].decode("utf-8", "ignore").encode()
