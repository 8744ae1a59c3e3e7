"""The tokens of a message: in three groups, in two forms, and with the words that they hide.

Rules: the two forms are names one by one, and one byte string with all of them. A token holds no line feed and is
not empty. What was made in one form gets the other form when somebody first needs it, and keeps it. The stores
write the byte string, and the native library reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, overload

from nbstream.numpy_on_demand import np

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


RAW_HEADER_PREFIX = b"raw:"
"""What the tokens of the header as it is written begin with."""

BODY_PREFIXES = (b"body:", b"url:", b"url.")
"""What the tokens of words and links begin with."""


@dataclass(frozen=True, slots=True, init=False)
class Tokens:
    """The distinct tokens of a message, in the three groups from which clues are chosen.

    ``all`` has the tokens of ``head``, ``body`` and ``raw_header``, in this order, and ``sizes`` says how many
    tokens each of these groups has. Where they are keyed hashes, ``words`` are the tokens that they were made of,
    as long as the message is at hand; see ``private_tokens``.
    """

    all: TokenList
    sizes: tuple[int, int, int]
    words: TokenList | None = field(compare=False)

    def __init__(
        self,
        head: Sequence[bytes],
        body: Sequence[bytes],
        raw_header: Sequence[bytes] = (),
    ) -> None:
        """Make the tokens of the three groups."""
        sizes = len(head), len(body), len(raw_header)
        self._set_fields(TokenList((*head, *body, *raw_header)), sizes)

    def _set_fields(
        self,
        tokens: TokenList,
        sizes: tuple[int, int, int],
        words: TokenList | None = None,
    ) -> None:
        # One by one: a loop over the fields takes four times as long, and each check makes such an object.
        object.__setattr__(self, "all", tokens)
        object.__setattr__(self, "sizes", sizes)
        object.__setattr__(self, "words", words)

    @classmethod
    def from_joined(
        cls,
        joined: bytes,
        sizes: tuple[int, int, int],
        words: TokenList | None = None,
    ) -> Tokens:
        """Return the tokens whose ``all.joined`` is ``joined``, in groups of these ``sizes``."""
        tokens = cls.__new__(cls)
        tokens._set_fields(TokenList.from_joined(joined, sum(sizes)), sizes, words)
        return tokens

    def __reduce__(self) -> tuple[Callable[..., Tokens], tuple[object, ...]]:
        return Tokens.from_joined, (self.all.joined, self.sizes, self.words)

    @classmethod
    def from_all(cls, tokens: Sequence[bytes]) -> Tokens:
        """Return the groups again from ``all``.

        The header as it is written is the longest end of ``tokens`` with its prefix, and the body is the longest
        end of the rest with prefixes of the body. A header field called URL has tokens with the prefix of links,
        but other tokens of the head follow them.
        """
        raw_header = _start_of_end(tokens, len(tokens), (RAW_HEADER_PREFIX,))
        body = _start_of_end(tokens, raw_header, BODY_PREFIXES)
        grouped = cls.__new__(cls)
        names = tokens if isinstance(tokens, TokenList) else TokenList(tokens)
        grouped._set_fields(names, (body, raw_header - body, len(tokens) - raw_header))
        return grouped

    def with_more_head(self, tokens: Sequence[bytes]) -> Tokens:
        """Return these tokens with others of the head before them."""
        head, body, raw_header = self.sizes
        joined = b"\n".join(filter(None, (*tokens, self.all.joined)))
        return Tokens.from_joined(joined, (head + len(tokens), body, raw_header))

    def without_words(self) -> Tokens:
        """Return these tokens for what remembers them."""
        tokens = Tokens.__new__(Tokens)
        tokens._set_fields(self.all, self.sizes)
        return tokens

    @property
    def shown(self) -> TokenList:
        """What people are shown in place of ``all``: the words where they are known."""
        return self.all if self.words is None else self.words

    @property
    def head(self) -> tuple[bytes, ...]:
        """The tokens of header and structure."""
        return self.groups[0]

    @property
    def body(self) -> tuple[bytes, ...]:
        """The tokens of words and links."""
        return self.groups[1]

    @property
    def raw_header(self) -> tuple[bytes, ...]:
        """The tokens of the header as it is written."""
        return self.groups[2]

    @property
    def groups(self) -> tuple[tuple[bytes, ...], tuple[bytes, ...], tuple[bytes, ...]]:
        """The groups, in the order of ``all``."""
        names, head, body_end = self.all.names, self.sizes[0], self.sizes[0] + self.sizes[1]
        return names[:head], names[head:body_end], names[body_end:]


class TokenizedMessage(NamedTuple):
    """What is left of a message once it is tokenized: ``Message.key``, its tokens, and whether it is mail.

    ``packed_tokens`` are those of ``LedgerEntry``.
    """

    key: str
    tokens: Tokens
    is_mail: bool = True
    packed_tokens: bytes = b""


def _start_of_end(tokens: Sequence[bytes], end: int, prefixes: tuple[bytes, ...]) -> int:
    """Return where the longest end of ``tokens[:end]`` begins whose tokens all have one of the prefixes."""
    while end and tokens[end - 1].startswith(prefixes):
        end -= 1
    return end
