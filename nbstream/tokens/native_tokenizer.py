"""Takes messages apart with the native library, and with Python where the library hands a message back.

Rules: the result is that of ``Tokenizer``, to the byte. Nothing here raises that ``Tokenizer`` does not raise.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

from nbstream.mail.charsets import decode_long_text, decode_text
from nbstream.mail.header_fields import HeaderField
from nbstream.mail.message import key_content
from nbstream.mail.mime import parse_parameters
from nbstream.tokens.authentication import authentication_tokens
from nbstream.tokens.header_tokens import field_tokens, relation_tokens
from nbstream.tokens.structure import bare_text_tokens, file_name_tokens
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions, lower_case
from nbstream.tokens.tokens import TokenizedMessage, Tokens, encode_tokens
from nbstream.tokens.unicode import only_known
from nbstream.tokens.urls import link_tokens
from nbstream.tokens.words import WordAllowance, fold_stretches

if TYPE_CHECKING:
    from nbstream.mail.message import Message


# Answers what the native library asks: rare charsets, fields and links beyond ASCII, results of authentication.
#
# Rules: each answer is what the specification says of the same piece of a message. The numbers of the questions
# are those of ``nbn_question`` in ``engine/interface.h``; ``native/src/foreign.rs`` says what their arguments
# are.

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


_IS_MAIL = 1
_OPTIONS = struct.Struct("=4Q2I")  # nbn_tokenize_options of the interface
_HEAD = struct.Struct("=4I24s")  # flags, sizes, key
_OUTPUT_BYTES = 1 << 18  # 2,000 tokens need half of it


_Ask = ctypes.CFUNCTYPE(
    None,
    ctypes.c_void_p,
    ctypes.c_uint32,
    ctypes.POINTER(ctypes.c_void_p),
    ctypes.POINTER(ctypes.c_size_t),
    ctypes.c_size_t,
)


class _Output(threading.local):
    """Where the library writes its result: for each thread a buffer of its own, which grows.

    ``interruption`` ended an answer and has to go on when the library returns, such as ``KeyboardInterrupt``.
    """

    def __init__(self) -> None:
        self.buffer = ctypes.create_string_buffer(_OUTPUT_BYTES)
        self.interruption: BaseException | None = None


class NativeTokenizer(Tokenizer):
    """A ``Tokenizer`` that does its work in the native library."""

    def __init__(self, options: TokenizerOptions, library: ctypes.CDLL) -> None:
        super().__init__(options)
        self._specification = Tokenizer(options)
        self._tokenize = library.nbn_tokenize
        self._tokenize.restype = ctypes.c_int64
        self._tokenize.argtypes = (
            ctypes.c_char_p,
            ctypes.c_size_t,
            ctypes.c_char_p,
            _Ask,
            ctypes.c_char_p,
            ctypes.c_size_t,
        )
        self._give_answer = library.nbn_answer
        self._give_answer.restype = None
        self._give_answer.argtypes = (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        self._foreign_pieces = ForeignPieces(options)
        self._ask = _Ask(self._answer)
        self._output = _Output()

    def tokenize(self, message: Message) -> TokenizedMessage:
        """Return the key and the tokens of ``message``."""
        limits, options = message.limits, self.options
        native_options = _OPTIONS.pack(
            limits.look_bytes,
            limits.max_parts,
            limits.max_depth,
            options.max_tokens,
            message.is_bare_text,
            bool(options.trusted_authserv_ids),
        )
        output = self._output
        needed = self._written(message.raw, native_options, output.buffer)
        if needed > len(output.buffer):
            output.buffer = ctypes.create_string_buffer(needed)
            needed = self._written(message.raw, native_options, output.buffer)
        if needed < 0:
            return self._specification.tokenize(message)
        flags, head, body, raw_header, key = _HEAD.unpack_from(output.buffer)
        joined = bytes(memoryview(output.buffer)[_HEAD.size : needed])
        tokens = Tokens.from_joined(joined, (head, body, raw_header))
        return TokenizedMessage(key.decode("ascii"), tokens, bool(flags & _IS_MAIL))

    def _written(self, raw: bytes, native_options: bytes, buffer: ctypes.Array[ctypes.c_char]) -> int:
        """Return how many bytes the result needs, which was written if it fits; -1 for a message handed back."""
        needed: int = self._tokenize(raw, len(raw), native_options, self._ask, buffer, len(buffer))
        if self._output.interruption:
            interruption, self._output.interruption = self._output.interruption, None
            raise interruption
        return needed

    def _answer(
        self,
        answer: int,
        question: int,
        arguments: ctypes._Pointer[ctypes.c_void_p],
        lengths: ctypes._Pointer[ctypes.c_size_t],
        count: int,
    ) -> None:
        # A message without an answer is handed back. Python fails in the same way then, where somebody sees it.
        try:
            with suppress(Exception):
                pieces = [ctypes.string_at(arguments[place] or 0, lengths[place]) for place in range(count)]
                content = self._foreign_pieces.answer(question, pieces)
                self._give_answer(answer, content, len(content))
        except BaseException as interruption:  # noqa: BLE001 - ctypes would drop it: nothing goes through C
            self._output.interruption = interruption


def make_tokenizer(options: TokenizerOptions, library: ctypes.CDLL | None) -> Tokenizer:
    """Return the tokenizer for these options: a native one where there is a library."""
    return NativeTokenizer(options, library) if library else Tokenizer(options)
