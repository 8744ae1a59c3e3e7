"""A fixture by which the tests of the pure layers test both engines.

Whatever message a test takes apart with Python, or whose key it computes, is taken apart by the native library
too, and the results must be the same. Without the library nothing is compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from nbstream.engine.choice import LIBRARY_FILE, load_library
from nbstream.mail.message import Message
from nbstream.tokens.native_tokenizer import NativeTokenizer
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from nbstream.tokens.tokens import TokenizedMessage, Tokens

if TYPE_CHECKING:
    import ctypes


class _Comparison:
    """Compares what Python makes of a message with what the library makes of it, and notes the differences."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        self._is_comparing = False  # what the library hands back is made by Python again
        self.differences: list[str] = []

    def tokens(self, tokenizer: Tokenizer, message: Message, tokens: Tokens) -> None:
        """Compare the tokens that this tokenizer made."""
        self._compare(message, tokenizer.options, "tokens", (tokens.all.joined, tokens.sizes))

    def key(self, message: Message, key: str) -> None:
        """Compare the key that Python gave to the message."""
        self._compare(message, TokenizerOptions(), "key", key)

    def _compare(self, message: Message, options: TokenizerOptions, what: str, expected: object) -> None:
        if self._is_comparing:
            return
        self._is_comparing = True
        try:
            copy = Message(message.raw, message.limits, message.is_bare_text)
            taken = NativeTokenizer(options, self._library).tokenize(copy)
        finally:
            self._is_comparing = False
        found = taken.key if what == "key" else (taken.tokens.all.joined, taken.tokens.sizes)
        if found != expected:
            self.differences.append(f"{what} of {message.raw[:2000]!r}: {found!r} instead of {expected!r}")


@pytest.fixture(autouse=True)
def compare_engines(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Compare both engines on each message of a test, and fail at its end where they differ."""
    if not LIBRARY_FILE.exists():
        yield
        return
    comparison = _Comparison(load_library())
    python_tokenize, python_key = Tokenizer.tokenize, vars(Message)["key"].func

    def tokenize(tokenizer: Tokenizer, message: Message) -> TokenizedMessage:
        tokenized = python_tokenize(tokenizer, message)
        comparison.tokens(tokenizer, message, tokenized.tokens)
        return tokenized

    def key(message: Any) -> str:
        found: str = python_key(message)
        comparison.key(message, found)
        return found

    monkeypatch.setattr(Tokenizer, "tokenize", tokenize)
    monkeypatch.setattr(Message, "key", property(key))
    yield
    assert comparison.differences == []
