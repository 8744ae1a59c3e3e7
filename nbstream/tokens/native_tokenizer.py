"""Takes messages apart with the native library, and with Python where the library hands a message back.

Rules: the result is that of ``Tokenizer``, to the byte. Nothing here raises that ``Tokenizer`` does not raise.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from nbstream.tokens.foreign_pieces import ForeignPieces
from nbstream.tokens.tokenizer import TakenApart, Tokenizer, TokenizerOptions, Tokens

if TYPE_CHECKING:
    from nbstream.mail.message import Message

_IS_MAIL = 1
_OPTIONS = struct.Struct("=4Q2I")  # nbn_take_apart_options of the interface
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
        self._take_apart = library.nbn_take_apart
        self._take_apart.restype = ctypes.c_int64
        self._take_apart.argtypes = (
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

    def take_apart(self, message: Message) -> TakenApart:
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
        needed = self._written(message.raw, native_options)
        if needed > len(self._output.buffer):
            self._output.buffer = ctypes.create_string_buffer(needed)
            needed = self._written(message.raw, native_options)
        if needed < 0:
            return self._specification.take_apart(message)
        content = memoryview(self._output.buffer)[:needed]
        flags, head, body, raw_header, key = _HEAD.unpack_from(content)
        tokens = Tokens.from_joined(bytes(content[_HEAD.size :]), (head, body, raw_header))
        return TakenApart(
            key.decode("ascii"),
            bool(flags & _IS_MAIL),
            tokens,
        )

    def tokenize(self, message: Message) -> Tokens:
        """Return the tokens of ``message``, in their groups."""
        return self.take_apart(message).tokens

    def _written(self, raw: bytes, native_options: bytes) -> int:
        """Return how many bytes the result needs, which was written if it fits; -1 for a message handed back."""
        buffer = self._output.buffer
        needed: int = self._take_apart(raw, len(raw), native_options, self._ask, buffer, len(buffer))
        interruption, self._output.interruption = self._output.interruption, None
        if interruption:
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
