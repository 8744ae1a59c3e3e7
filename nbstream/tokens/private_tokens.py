"""Private tokens: keyed hashes in place of words, for a model that stores no words.

Rules: the same key gives the same name to the same token everywhere. A name begins with a prefix of the
group of its token (see ``token_groups``), so that ``Tokens.from_all`` puts it where it would put the token; then
comes ``#``, and 96 bits of SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) under the
key in base64url. That two of a million tokens get one name has a probability below 1e-17. So a score is that of
the tokens themselves, to the last bit. Where a limit takes some of equally strong clues, their names decide which:
it may be others that are shown, and that vote for a kind of ham.

BLAKE2b took 200 ns a token in the native library, and a check then 1.45 times as long as one by words.
"""

from __future__ import annotations

import binascii
import ctypes
import hashlib
import re
import secrets
import threading
from typing import TYPE_CHECKING

from nbstream.durable_files import make_file
from nbstream.errors import ConfigError
from nbstream.numpy_on_demand import np
from nbstream.tokens.token_groups import (
    NOVELTY_PRIVATE_PREFIXES,
    OTHER_PRIVATE_PREFIXES,
    TEXT_PREFIXES,
    novelty_group,
)
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import BODY_PREFIXES, RAW_HEADER_PREFIX, TokenizedMessage, Tokens

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    from nbstream.mail.message import Message

KEY_BYTES = 32
"""The length of the key."""

_HASH_KEY_BYTES = 16
_DIGEST_BYTES = 12
_DIGEST_CHARACTERS = 16  # of base64: without padding, because 12 is a multiple of 3
_MAX_NAME_BYTES = max(map(len, (*NOVELTY_PRIVATE_PREFIXES, *OTHER_PRIVATE_PREFIXES))) + _DIGEST_CHARACTERS
_OUTPUT_BYTES = 1 << 16  # 2,000 tokens need less
_TO_BASE64URL = bytes.maketrans(b"+/", b"-_")
_NAME = re.compile(rb"(?:%s)[A-Za-z0-9_-]{16}" % b"|".join((*NOVELTY_PRIVATE_PREFIXES, *OTHER_PRIVATE_PREFIXES)))


def is_private(token: bytes) -> bool:
    """Return whether ``token`` looks like the name of a private token; a word of somebody's mail may, too."""
    return _NAME.fullmatch(token) is not None


def are_private(tokens: Iterable[bytes]) -> bool:
    """Return whether there are ``tokens``, and all of them look like names of private tokens."""
    listed = list(tokens)
    return bool(listed) and all(map(is_private, listed))


class _Output(threading.local):
    """Where the library writes: for each thread a buffer of its own, which grows."""

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(_OUTPUT_BYTES)

    def room(self, size: int) -> ctypes.Array[ctypes.c_char]:
        """Return the buffer, which has this many bytes at least. A new one for each message takes longer."""
        if size > len(self._buffer):
            self._buffer = ctypes.create_string_buffer(size)
        return self._buffer


class TokenHasher:
    """Hashes tokens under a ``key`` of ``KEY_BYTES`` bytes, with the native ``library`` where there is one.

    ``fingerprint`` tells the key from others and says nothing of it: 16 hexadecimal digits.
    """

    def __init__(self, key: bytes, library: ctypes.CDLL | None = None) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"the key must have {KEY_BYTES} bytes")
        self.fingerprint = _derived(key, b"fingerprint", 8).hex()
        self._hash_key = _derived(key, b"tokens", _HASH_KEY_BYTES)
        self._output = _Output()
        self._hash_natively = library.nbn_hash_tokens if library else None
        if self._hash_natively:
            self._hash_natively.restype = ctypes.c_int64
            self._hash_natively.argtypes = (
                ctypes.c_char_p,
                ctypes.c_char_p,
                ctypes.c_size_t,
                ctypes.c_char_p,
                ctypes.c_size_t,
            )

    def hash_tokens(self, tokens: Tokens) -> Tokens:
        """Return the names of ``tokens``, in the same groups and in the same order, with these as their words."""
        if not self._hash_natively:
            return Tokens.from_joined(b"\n".join(self._names(tokens.all.names)), tokens.sizes, tokens.all)
        joined = tokens.all.joined
        buffer = self._output.room(len(tokens.all) * (_MAX_NAME_BYTES + 1))
        written = self._hash_natively(self._hash_key, joined, len(joined), buffer, len(buffer))
        assert written >= 0
        return Tokens.from_joined(ctypes.string_at(buffer, written), tokens.sizes, tokens.all)

    def _names(self, tokens: Sequence[bytes]) -> Sequence[bytes]:
        encoded = binascii.b2a_base64(_digests(self._hash_key, tokens), newline=False).translate(_TO_BASE64URL)
        return [
            _prefix(token) + encoded[i * _DIGEST_CHARACTERS :][:_DIGEST_CHARACTERS]
            for i, token in enumerate(tokens)
        ]


def _derived(key: bytes, purpose: bytes, size: int) -> bytes:
    return hashlib.blake2b(purpose, key=key, digest_size=size).digest()


def _prefix(token: bytes) -> bytes:
    if token.startswith(RAW_HEADER_PREFIX):
        return b"raw:#"
    if token.startswith(BODY_PREFIXES):
        return b"body:#" if token.startswith(TEXT_PREFIXES) else b"url:#"
    group = novelty_group(token)
    if group is not None:
        return NOVELTY_PRIVATE_PREFIXES[group]
    return b"subject:#" if token.startswith(TEXT_PREFIXES) else b"head:#"


def _digests(key: bytes, tokens: Sequence[bytes]) -> bytes:
    """Return the digests of all tokens, one after the other: the first bytes of SipHash-2-4 with 128 bits."""
    if not tokens:
        return b""
    lengths = np.array([len(token) for token in tokens])
    words = lengths // 8 + 1  # the last one has the rest of the token, and the length in its last byte
    padded = b"".join([token.ljust(8 * words.max(), b"\0") for token in tokens])
    blocks = np.frombuffer(padded, "<u8").reshape(len(tokens), -1).astype(np.uint64)
    blocks[np.arange(len(tokens)), words - 1] |= lengths.astype(np.uint64) << np.uint64(56)
    longest_first = np.argsort(-words, kind="stable")
    state = _initial_state(key, len(tokens))
    for number, block in enumerate(np.ascontiguousarray(blocks[longest_first].T)):
        active = int(np.count_nonzero(words > number))
        some = [values[:active] for values in state]
        some[3] ^= block[:active]
        _rounds(some, 2)
        some[0] ^= block[:active]
    digests = np.empty((len(tokens), 2), "<u8")
    state[2] ^= np.uint64(0xEE)
    digests[longest_first, 0] = _rounds(state, 4)
    state[1] ^= np.uint64(0xDD)
    digests[longest_first, 1] = _rounds(state, 4)
    return digests.view(np.uint8)[:, :_DIGEST_BYTES].tobytes()


def _initial_state(key: bytes, size: int) -> list[NDArray[np.uint64]]:
    """Return v0 to v3 of the paper, each of shape (size,)."""
    state = np.frombuffer(key * 2, "<u8") ^ np.frombuffer(b"uespemosmodnarodarenegylsetybdet", "<u8")
    state[1] ^= np.uint64(0xEE)
    return [np.full(size, value, np.uint64) for value in state]


def _rounds(state: Sequence[NDArray[np.uint64]], rounds: int) -> NDArray[np.uint64]:
    """Do some rounds in place, and return v0 ^ v1 ^ v2 ^ v3 after them."""
    v0, v1, v2, v3 = state
    spare = np.empty_like(v0)

    def rotate(values: NDArray[np.uint64], bits: int) -> None:
        np.left_shift(values, bits, out=spare)
        np.right_shift(values, 64 - bits, out=values)
        np.bitwise_or(values, spare, out=values)

    for _ in range(rounds):
        v0 += v1
        v2 += v3
        rotate(v1, 13)
        rotate(v3, 16)
        v1 ^= v0
        v3 ^= v2
        rotate(v0, 32)
        v2 += v1
        v0 += v3
        rotate(v1, 17)
        rotate(v3, 21)
        v1 ^= v2
        v3 ^= v0
        rotate(v2, 32)
    return v0 ^ v1 ^ v2 ^ v3


class PrivateTokenizer(Tokenizer):
    """A tokenizer whose tokens are hashed; the words of a message are known for as long as it is at hand."""

    def __init__(self, tokenizer: Tokenizer, hasher: TokenHasher) -> None:
        super().__init__(tokenizer.options)
        self._tokenizer = tokenizer
        self._hasher = hasher

    def tokenize(self, message: Message) -> TokenizedMessage:
        """Return the key and the hashed tokens of ``message``, which have their words."""
        taken = self._tokenizer.tokenize(message)
        return taken._replace(tokens=self._hasher.hash_tokens(taken.tokens))


_KEY_DIGITS = re.compile(r"[0-9a-fA-F]{%d}\n?" % (2 * KEY_BYTES))  # noqa: UP031 - braces are of the expression


def read_or_make_key(file: Path, setting: str) -> bytes:
    """Return the key in ``file``, which is made where it is missing; ``setting`` is what needs it.

    It is in the file in hexadecimal, so that a person can copy it to another machine. Of several processes that
    make it at the same moment one does, and all read it.

    Raises ``ConfigError`` where it cannot be read or made, or is no key.
    """
    try:
        if not file.exists():
            make_file(file, f"{secrets.token_hex(KEY_BYTES)}\n".encode())
        text = file.read_bytes().decode("ascii", "replace")
    except OSError as error:
        raise ConfigError(f"the key of {setting} cannot be read or made: {file}: {error.strerror}") from error
    if not _KEY_DIGITS.fullmatch(text):
        raise ConfigError(
            f"{file} is no key of {setting}: it must have {2 * KEY_BYTES} hexadecimal digits. "
            "Put back the file that the model was begun with"
        )
    return bytes.fromhex(text)
