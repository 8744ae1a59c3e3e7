"""Tokens as bytes: UTF-8 without ASCII white space or control characters, at most ``MAX_TOKEN_BYTES`` bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOKEN_BYTES = 64

# White space and control characters become "_"; the line feed stays, since it separates tokens meanwhile.
_CLEANING_TABLE = bytes(c if (c > 32 and c != 127) or c == 10 else 95 for c in range(256))


def encode_tokens(tokens: Sequence[str]) -> list[bytes]:
    """``tokens`` as bytes, cleaned and cut; as many, in their order."""
    if not tokens:
        return []
    found = "\n".join(tokens).encode("utf-8", "replace").translate(_CLEANING_TABLE).split(b"\n")
    if len(found) != len(tokens):
        return encode_tokens([token.replace("\n", "_") for token in tokens])
    if max(map(len, found)) > MAX_TOKEN_BYTES:
        return [truncate_utf8(token) for token in found]
    return found


def truncate_utf8(text: bytes, longest: int = MAX_TOKEN_BYTES) -> bytes:
    """``text`` up to the last whole character within ``longest`` bytes."""
    return text if len(text) <= longest else text[:longest].decode("utf-8", "ignore").encode()
