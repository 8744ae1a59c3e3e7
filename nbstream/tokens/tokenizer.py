"""Message to tokens: collects the tokens of the other modules of this package in a fixed order, within bounds.

Rules: nothing here raises, whatever the bytes; the same message gives the same tokens in the same order. A token
is UTF-8 without ASCII white space or control characters, at most ``MAX_TOKEN_BYTES`` bytes, and begins with a
prefix that says where it comes from.

For tokens that were tried and not kept see docs/experiments.md, "Tokens".
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.mail.charsets import decode_text
from nbstream.tokens import html, urls
from nbstream.tokens.authentication import authentication_tokens
from nbstream.tokens.header_tokens import header_tokens, raw_header_tokens
from nbstream.tokens.structure import bare_text_tokens, file_type, structure_tokens
from nbstream.tokens.tokens import TokenizedMessage, Tokens, encode_tokens
from nbstream.tokens.unicode import hides_characters
from nbstream.tokens.words import MAX_FOLDED_CHARACTERS, WordAllowance, distinct_words_utf8, spread_choice

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nbstream.mail.message import Message
    from nbstream.mail.mime import MimePart

_HTML_TYPES = frozenset({"application/xhtml+xml", "image/svg+xml"})
_UNKNOWN_TYPES = frozenset({"application/octet-stream", "application/unknown", "application/x-unknown"})
_KINDS_OF_FILES = {"html": "html", "htm": "html", "shtml": "html", "xhtml": "html", "svg": "html", "txt": "plain"}
_LOOKED_AT_BYTES = 4096
_CONTROL_CHARACTER = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f\x7f]")  # ISO 2022 has ESC


@dataclass(frozen=True, slots=True)
class TokenizerOptions:
    """At most ``max_tokens`` distinct tokens are made of a message.

    ``trusted_authserv_ids`` are the servers, in lower case, whose Authentication-Results are read. They stand
    below ``own_received_fields`` Received fields of these servers.
    """

    max_tokens: int = 2000
    trusted_authserv_ids: frozenset[str] = frozenset()
    own_received_fields: int = 0


class Tokenizer:
    """Turns messages into tokens."""

    def __init__(self, options: TokenizerOptions = TokenizerOptions()) -> None:
        self.options = options

    def tokenize(self, message: Message) -> TokenizedMessage:
        """Return the key and the tokens of ``message``."""
        return TokenizedMessage(message.key, self._tokens(message), message.is_mail)

    def _tokens(self, message: Message) -> Tokens:
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
