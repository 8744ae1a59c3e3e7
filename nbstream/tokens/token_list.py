"""The tokens of a message in their two forms: names one by one, and one byte string with all of them.

Rules: a token holds no line feed and is not empty. What was made in one form gets the other form when somebody
first needs it, and keeps it. The stores write the byte string, and the native library reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

import numpy as np

_LINE_FEED = 10


class TokenList(Sequence[bytes]):
    """An immutable sequence of tokens; it equals the tuple of their names."""

    __slots__ = ("_joined", "_length", "_names")

    def __init__(self, names: Sequence[bytes]) -> None:
        self._names: tuple[bytes, ...] | None = tuple(names)
        self._joined: bytes | None = None
        self._length: int | None = len(names)

    @classmethod
    def from_joined(cls, joined: bytes, length: int | None = None) -> TokenList:
        """Return the tokens of which this is the ``joined`` form; ``length`` is their number, if it is known."""
        tokens = cls.__new__(cls)
        tokens._names, tokens._joined, tokens._length = None, joined, length
        return tokens

    @property
    def joined(self) -> bytes:
        """All tokens, separated by line feeds; empty where there are none."""
        if self._joined is None:
            self._joined = b"\n".join(self.names)
        return self._joined

    @property
    def names(self) -> tuple[bytes, ...]:
        """The tokens one by one."""
        if self._names is None:
            self._names = tuple(self.joined.split(b"\n")) if self._joined else ()
        return self._names

    def at(self, positions: Sequence[int]) -> list[bytes]:
        """Return the tokens at these positions: the others are not made one by one for it."""
        if self._names is not None:
            return [self._names[position] for position in positions]
        lines = self.joined + b"\n"
        ends = np.flatnonzero(np.frombuffer(lines, np.uint8) == _LINE_FEED)
        return [lines[ends[i - 1] + 1 if i else 0 : ends[i]] for i in positions]

    def __len__(self) -> int:
        if self._length is None:
            self._length = self.joined.count(b"\n") + 1 if self._joined else 0
        return self._length

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...

    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        return self.names[index]

    def __iter__(self) -> Iterator[bytes]:
        return iter(self.names)

    def __contains__(self, token: object) -> bool:
        return token in self.names

    def __eq__(self, other: object) -> bool:
        if isinstance(other, TokenList):
            return self.joined == other.joined
        return self.names == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.names)  # that of the tuple which it equals

    def __repr__(self) -> str:
        return repr(self.names)

    def __reduce__(self) -> tuple[Callable[[bytes, int], TokenList], tuple[bytes, int]]:
        return TokenList.from_joined, (self.joined, len(self))


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


def join_tokens(tokens: Sequence[bytes]) -> bytes:
    """The tokens as one byte string, separated by line feeds; no token holds a line feed."""
    return tokens.joined if isinstance(tokens, TokenList) else b"\n".join(tokens)
