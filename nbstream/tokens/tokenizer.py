"""Message to tokens: collects the tokens of the other modules of this package in a fixed order, within bounds.

Rules: nothing here raises, whatever the bytes; the same message gives the same tokens in the same order. A token
is UTF-8 without ASCII white space or control characters, at most ``MAX_TOKEN_BYTES`` bytes, and begins with a
prefix that says where it comes from.

For tokens that were tried and not kept see docs/experiments.md, "Tokens".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.mail.charsets import decode_text
from nbstream.tokens import html, urls
from nbstream.tokens.attributes import extract_attributes
from nbstream.tokens.authentication import authentication_tokens
from nbstream.tokens.encoding import encode_tokens
from nbstream.tokens.header_tokens import header_tokens
from nbstream.tokens.numbers import extract_numbers
from nbstream.tokens.structure import bare_text_tokens, structure_tokens
from nbstream.tokens.words import distinct_words_utf8, spread_choice

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from nbstream.mail.message import Message

TOKENIZER_VERSION = 4
"""Stored with a model: the counts of one version say little about the tokens of another version."""

_BODY_PREFIXES = (b"body:", b"url:", b"url.")


@dataclass(frozen=True, slots=True)
class TokenizerOptions:
    """At most ``max_tokens`` distinct tokens are made of a message; attributes and numbers are optional.

    ``trusted_authserv_ids`` are the servers, in lower case, whose Authentication-Results are read. They stand
    below ``own_received_fields`` Received fields of these servers.
    """

    max_tokens: int = 2000
    attributes: bool = False
    numbers: bool = False
    trusted_authserv_ids: frozenset[str] = frozenset()
    own_received_fields: int = 0


@dataclass(frozen=True, slots=True)
class Tokens:
    """The distinct tokens of a message, in the two groups from which clues are chosen.

    ``head`` has the tokens of header and structure, ``body`` those of words and links. ``attributes`` and
    ``numbers`` are (name, value) pairs, where the options of the tokenizer include them.
    """

    head: tuple[bytes, ...]
    body: tuple[bytes, ...]
    attributes: tuple[tuple[str, str], ...] = ()
    numbers: tuple[tuple[str, int], ...] = ()

    @classmethod
    def from_all(cls, tokens: Sequence[bytes]) -> Tokens:
        """Return the two groups again from ``all``, without attributes and numbers.

        The body is the longest end of ``tokens`` with prefixes of the body. A header field called URL has tokens
        with the prefix of links, but other tokens of the head follow them.
        """
        head = len(tokens)
        while head and tokens[head - 1].startswith(_BODY_PREFIXES):
            head -= 1
        return cls(tuple(tokens[:head]), tuple(tokens[head:]))

    @property
    def all(self) -> tuple[bytes, ...]:
        """All tokens: head, then body."""
        return self.head + self.body


class Tokenizer:
    """Turns messages into tokens."""

    def __init__(self, options: TokenizerOptions = TokenizerOptions()) -> None:
        self._options = options

    def tokenize(self, message: Message) -> Tokens:
        """Return the tokens of ``message``, in ``head`` (header fields, structure) and ``body`` (words, links)."""
        limit = self._options.max_tokens
        head, body = self._head_tokens(message), _body_tokens(message, limit)
        # Each group has half of the limit for itself: else 34 long To fields would leave nothing of the body.
        head = head[: max(limit - limit // 2, limit - len(body))]
        return Tokens(
            head,
            tuple(spread_choice(body, limit - len(head))),
            extract_attributes(message) if self._options.attributes else (),
            extract_numbers(message) if self._options.numbers else (),
        )

    def _head_tokens(self, message: Message) -> tuple[bytes, ...]:
        if not message.is_mail:
            described = ["fields:none", *bare_text_tokens(next(_text_parts(message))[0])]
            return tuple(dict.fromkeys(encode_tokens(described)))
        authentication = authentication_tokens(
            message.fields, self._options.trusted_authserv_ids, self._options.own_received_fields
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


def _body_tokens(message: Message, limit: int) -> tuple[bytes, ...]:
    """Return the distinct tokens of words and links, in order: at most ``limit`` words of each text, and links."""
    tokens: list[bytes] = []
    texts = 0
    for content, content_type in _text_parts(message):
        text = content.lower()
        visible = html.visible_text(text) if html.is_html(content_type, text) else text
        tokens += [b"body:" + word for word in distinct_words_utf8(visible, limit)]
        if links := urls.find_links(text):
            tokens += dict.fromkeys(encode_tokens([token for link in links for token in urls.link_tokens(link)]))
        texts += 1
    # The tokens of one text are distinct: words and links are, and have different prefixes.
    return tuple(tokens if texts == 1 else dict.fromkeys(tokens))


def _text_parts(message: Message) -> Iterator[tuple[str, str]]:
    """Yield the text and the type of each text part, of a bare text all of it; then the end of a long message."""
    if not message.is_mail:
        yield decode_text(message.raw[: message.limits.look_bytes], None), "text/plain"
    else:
        for part in message.parts:
            if not part.is_container and part.content_type.startswith("text/"):
                yield part.text, part.content_type
    if message.unread_end:
        yield message.unread_end, "text/html" if "</" in message.unread_end else "text/plain"
