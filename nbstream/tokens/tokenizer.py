"""Message to tokens: collects the tokens of the other modules of this package in a fixed order, within bounds.

Rules: nothing here raises, whatever the bytes; the same message gives the same tokens in the same order. A token
is UTF-8 without ASCII white space or control characters, at most ``MAX_TOKEN_BYTES`` bytes, and begins with a
prefix that says where it comes from.

For tokens that were tried and not kept see docs/experiments.md, "Tokens".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from nbstream.mail.charsets import decode_text
from nbstream.tokens import html, urls
from nbstream.tokens.authentication import authentication_tokens
from nbstream.tokens.header_tokens import RAW_HEADER_PREFIX, header_tokens, raw_header_tokens
from nbstream.tokens.structure import bare_text_tokens, file_type, structure_tokens
from nbstream.tokens.token_list import TokenList, encode_tokens
from nbstream.tokens.unicode import hides_characters
from nbstream.tokens.words import MAX_FOLDED_CHARACTERS, WordAllowance, distinct_words_utf8, spread_choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from nbstream.mail.message import Message
    from nbstream.mail.mime import MimePart

_HTML_TYPES = frozenset({"application/xhtml+xml", "image/svg+xml"})
_UNKNOWN_TYPES = frozenset({"application/octet-stream", "application/unknown", "application/x-unknown"})
_KINDS_OF_FILES = {"html": "html", "htm": "html", "shtml": "html", "xhtml": "html", "svg": "html", "txt": "plain"}
_LOOKED_AT_BYTES = 4096
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # ISO 2022 has ESC

BODY_PREFIXES = (b"body:", b"url:", b"url.")
"""What the tokens of words and links begin with."""


@dataclass(frozen=True, slots=True)
class TokenizerOptions:
    """At most ``max_tokens`` distinct tokens are made of a message.

    ``trusted_authserv_ids`` are the servers, in lower case, whose Authentication-Results are read. They stand
    below ``own_received_fields`` Received fields of these servers.
    """

    max_tokens: int = 2000
    trusted_authserv_ids: frozenset[str] = frozenset()
    own_received_fields: int = 0


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


class Tokenizer:
    """Turns messages into tokens."""

    def __init__(self, options: TokenizerOptions = TokenizerOptions()) -> None:
        self.options = options

    def take_apart(self, message: Message) -> TokenizedMessage:
        """Return the key and the tokens of ``message``."""
        return TokenizedMessage(message.key, self.tokenize(message), message.is_mail)

    def tokenize(self, message: Message) -> Tokens:
        """Return the tokens of ``message``, in their groups."""
        raw_header = self._raw_header_tokens(message)
        limit = self.options.max_tokens - len(raw_header)
        body, facts = _body_tokens(message, limit)
        head = tuple(dict.fromkeys((*self._head_tokens(message), *facts)))
        # Head and body each have half of what is left: else 34 long To fields would leave nothing of the body.
        head = head[: max(limit - limit // 2, limit - len(body))]
        return Tokens(
            head,
            tuple(spread_choice(body, limit - len(head))),
            raw_header,
        )

    def _raw_header_tokens(self, message: Message) -> tuple[bytes, ...]:
        return raw_header_tokens(message.fields, self.options.max_tokens // 4) if message.is_mail else ()

    def _head_tokens(self, message: Message) -> tuple[bytes, ...]:
        if not message.is_mail:
            described = ["fields:none", *bare_text_tokens(next(_text_parts(message))[0])]
            return tuple(dict.fromkeys(encode_tokens(described)))
        authentication = authentication_tokens(
            message.fields, self.options.trusted_authserv_ids, self.options.own_received_fields
        )
        return tuple(
            dict.fromkeys(
                [
                    *encode_tokens(authentication),
                    *header_tokens(message.fields),
                    *encode_tokens(structure_tokens(message.parts)),
                ]
            )
        )


def _start_of_end(tokens: Sequence[bytes], end: int, prefixes: tuple[bytes, ...]) -> int:
    """Return where the longest end of ``tokens[:end]`` begins whose tokens all have one of the prefixes."""
    while end and tokens[end - 1].startswith(prefixes):
        end -= 1
    return end


def _body_tokens(message: Message, limit: int) -> tuple[tuple[bytes, ...], list[bytes]]:
    """Return the distinct tokens of words and links, in order, and tokens for what is hidden in the texts.

    There are at most ``limit`` words of each text, and links.
    """
    tokens: list[bytes] = []
    hidden: list[str] = []
    texts = 0
    references = html.References()
    resolved_left = urls.MAX_RESOLVED_CHARACTERS
    allowance = WordAllowance(min(MAX_FOLDED_CHARACTERS, len(message.raw)))
    for content, is_html in _text_parts(message):
        text = lower_case(content)
        visible = text
        if is_html:
            visible = html.visible_text(text, references)
            hidden += html.hiding_styles(text)
        if hides_characters(visible):
            hidden.append("characters")
        tokens += [b"body:" + word for word in distinct_words_utf8(visible, limit, allowance)]
        if links := urls.find_links(text, resolved_left, references):
            tokens += dict.fromkeys(encode_tokens([token for link in links for token in urls.link_tokens(link)]))
        texts += 1
        resolved_left = max(0, resolved_left - len(text))
    # The tokens of one text are distinct: words and links are, and have different prefixes.
    return tuple(tokens if texts == 1 else dict.fromkeys(tokens)), encode_tokens(
        [f"hidden:{name}" for name in dict.fromkeys(hidden)]
    )


def lower_case(text: str) -> str:
    """Return ``text`` in lower case; where that is much longer, its beginning and its end, of the same length.

    U+0130 becomes two characters. No language has it in every fourth place.
    """
    lower = text.lower()
    if len(lower) <= len(text) + len(text) // 4:
        return lower
    end = len(text) // 8
    return f"{lower[: len(text) - end]}\n{lower[-end:]}"


def _text_parts(message: Message) -> Iterator[tuple[str, bool]]:
    """Yield each text, of a bare text all of it, and whether it is HTML; then the end of a long message."""
    if not message.is_mail:
        yield decode_text(message.raw[: message.limits.look_bytes], None), False
    else:
        for part in message.parts:
            if (kind := text_kind(part)) is not None:
                yield part.text, kind == "html"
    if message.unread_end:
        yield message.unread_end, "</" in message.unread_end


def text_kind(part: MimePart) -> str | None:
    """Return whether a part is read as "html" or "plain" text; None where it is not read.

    Text of any other type is shown as it is, whatever it looks like. Programs send texts as files without a type:
    those are known by their names, and have no control characters.
    """
    if part.is_container:
        return None
    if part.content_type.startswith("text/"):
        return "html" if part.content_type == "text/html" else "plain"
    if part.content_type in _HTML_TYPES:
        return "html"
    if part.content_type not in _UNKNOWN_TYPES or not part.filename:
        return None
    kind = _KINDS_OF_FILES.get(file_type(part.filename))
    return kind if kind and not _CONTROL_CHARACTER.search(part.payload, 0, _LOOKED_AT_BYTES) else None
