"""Answers what the native library asks: rare charsets, fields and links beyond ASCII, results of authentication.

Rules: each answer is what the specification says of the same piece of a message. The numbers of the questions are
those of ``nbn_question`` in ``engine/interface.h``; ``native/src/foreign.rs`` says what their arguments are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from nbstream.mail.charsets import decode_long_text, decode_text
from nbstream.mail.header_fields import HeaderField
from nbstream.mail.message import key_content
from nbstream.mail.parameters import parse_parameters
from nbstream.tokens.authentication import authentication_tokens
from nbstream.tokens.encoding import encode_tokens
from nbstream.tokens.header_tokens import field_tokens, relation_tokens
from nbstream.tokens.structure import bare_text_tokens, file_name_tokens
from nbstream.tokens.tokenizer import lower_case
from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import link_tokens
from nbstream.tokens.words import WordAllowance, fold_stretches

if TYPE_CHECKING:
    from nbstream.tokens.tokenizer import TokenizerOptions

Arguments: TypeAlias = Sequence[bytes]


class Question(IntEnum):
    """What the library asks."""

    KEY_FIELD = 1
    FIELD_TOKENS = 3
    RELATION_TOKENS = 4
    FILE_NAME_TOKENS = 5
    LOWER_TEXT = 6
    AUTHENTICATION_TOKENS = 7
    BARE_TEXT_TOKENS = 8
    LINK_TOKENS = 9
    FOLDED_PIECES = 10


class ForeignPieces:
    """Answers questions about messages that are read with some options."""

    def __init__(self, options: TokenizerOptions) -> None:
        self._options = options
        self._answers: Mapping[Question, Callable[[Arguments], Sequence[bytes]]] = {
            Question.KEY_FIELD: _key_field,
            Question.FIELD_TOKENS: _field_tokens,
            Question.RELATION_TOKENS: _relation_tokens,
            Question.FILE_NAME_TOKENS: _file_name_tokens,
            Question.AUTHENTICATION_TOKENS: self._authentication_tokens,
            Question.BARE_TEXT_TOKENS: _bare_text_tokens,
            Question.LINK_TOKENS: _link_tokens,
            Question.FOLDED_PIECES: _folded_pieces,
        }

    def answer(self, question: int, arguments: Arguments) -> bytes:
        """Return the answer: a text, or pieces that are each followed by a line feed.

        Raises ``UnicodeError`` where there is none, because the text cannot be encoded.
        """
        if question == Question.LOWER_TEXT:
            return _lower_text(arguments)
        return b"".join([piece + b"\n" for piece in self._answers[Question(question)](arguments)])

    def _authentication_tokens(self, arguments: Arguments) -> Sequence[bytes]:
        options = self._options
        tokens = authentication_tokens(
            _fields(arguments), options.trusted_authserv_ids, options.own_received_fields
        )
        return encode_tokens(tokens)


def _fields(arguments: Arguments) -> list[HeaderField]:
    """Return the fields whose names and values are the arguments, in turn."""
    return [
        HeaderField(name.decode("ascii"), value)
        for name, value in zip(arguments[::2], arguments[1::2], strict=True)
    ]


def _key_field(arguments: Arguments) -> Sequence[bytes]:
    return [key_content(HeaderField("", arguments[0]))]


def _field_tokens(arguments: Arguments) -> Sequence[bytes]:
    return field_tokens(_fields(arguments)[0])


def _relation_tokens(arguments: Arguments) -> Sequence[bytes]:
    return relation_tokens({field.name: field for field in _fields(arguments)})


def _file_name_tokens(arguments: Arguments) -> Sequence[bytes]:
    content_type, disposition = (parse_parameters(value)[1] for value in arguments)
    name = disposition.get("filename") or content_type.get("name")
    return encode_tokens(file_name_tokens(name)) if name else []


def _bare_text_tokens(arguments: Arguments) -> Sequence[bytes]:
    return encode_tokens(bare_text_tokens(decode_text(arguments[0], None)))


def _link_tokens(arguments: Arguments) -> Sequence[bytes]:
    return encode_tokens(link_tokens(arguments[0].decode("utf-8")))


def _folded_pieces(arguments: Arguments) -> Sequence[bytes]:
    allowance = WordAllowance(characters=int(arguments[1]))
    folded = fold_stretches(only_known(arguments[0].decode("utf-8")), allowance)
    return [folded.encode("utf-8"), b"%d" % allowance.characters]


def _lower_text(arguments: Arguments) -> bytes:
    content, *charset = arguments
    return lower_case(decode_long_text(content, charset[0].decode("ascii") if charset else None)).encode("utf-8")
