"""Encodes tokens as bytes: UTF-8 without ASCII white space or control characters, ``MAX_TOKEN_BYTES`` at most."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_TOKEN_BYTES = 64

# White space and control characters become "_". The line feed stays, because it separates the joined tokens.
_CLEANING_TABLE = bytes(c if (c > 32 and c != 127) or c == 10 else 95 for c in range(256))


def encode_tokens(tokens: Sequence[str]) -> list[bytes]:
    """Return ``tokens`` as bytes, cleaned and cut: the same number, in the same order."""
    if not tokens:
        return []
    encoded = "\n".join(tokens).encode("utf-8", "replace").translate(_CLEANING_TABLE).split(b"\n")
    if len(encoded) != len(tokens):
        return encode_tokens([token.replace("\n", "_") for token in tokens])
    if max(map(len, encoded)) > MAX_TOKEN_BYTES:
        return [truncate_utf8(token) for token in encoded]
    return encoded


def truncate_utf8(text: bytes, max_bytes: int = MAX_TOKEN_BYTES) -> bytes:
    """Return ``text`` up to the last whole character within ``max_bytes`` bytes."""
    return text if len(text) <= max_bytes else text[:max_bytes].decode("utf-8", "ignore").encode()
