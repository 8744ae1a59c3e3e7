"""Counts the work on the thread of the event loop, because times say nothing in a test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest

from nbstream.mail import charsets, message, mime
from nbstream.policy import header
from nbstream.tokens import tokenizer
from nbstream.tokens.tokenizer import Tokenizer
from nbstream.tokens.tokens import TokenizedMessage

MAX_ON_LOOP = 256 * 1024
"""How many bytes of a message may be rewritten, decoded or tokenized on the thread of the event loop."""

LARGEST = 6 << 20
"""The largest message of the listeners in these tests: well beyond what is read of it."""

HOSTILE: dict[str, bytes] = {
    "windows-1253": b"\xd2",
    "windows-1252": b"\xbd",
    "tis-620": b"\xd3",
    "utf-16-le": "\ufdfa".encode("utf-16-le"),
    "utf-8": "\ufdfa".encode(),
    "shift_jis": b"\xb6",
    "utf-7": b"\x9c",
    "iso-2022-jp": b"\x1b(Ba",
    "no-such-charset": b"\xff",
}
"""What costs much to decode or to normalise, by its charset."""


@dataclass
class LoopWork:
    """How much each kind of work has done on the thread of the event loop; ``decoded`` is that of all threads.

    Rewritten and tokenized are bytes, decoded are characters.
    """

    loop_thread: int = field(default_factory=threading.get_ident)
    on_loop: dict[str, int] = field(default_factory=dict)
    decoded: int = 0

    @property
    def largest(self) -> int:
        return max(self.on_loop.values(), default=0)

    def count(self, kind: str, size: int) -> None:
        if kind == "decode":
            self.decoded += size
        if threading.get_ident() == self.loop_thread:
            self.on_loop[kind] = self.on_loop.get(kind, 0) + size

    def rewriting(self, function: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
        def counted(content: bytes) -> bytes:
            self.count("rewrite", len(content))
            return function(content)

        return counted

    def decoding(self, function: Callable[..., str | tuple[str, str]]) -> Callable[..., str | tuple[str, str]]:
        def counted(*arguments: Any) -> str | tuple[str, str]:
            decoded = function(*arguments)
            self.count("decode", len("".join(decoded)))
            return decoded

        return counted


# Each name under which a function that decodes is called.
_DECODERS = (
    (charsets, "decode_text"),
    (charsets, "decode_long_text"),
    (message, "decode_ends"),
    (mime, "decode_long_text"),
    (message, "decode_long_text"),
    (tokenizer, "decode_text"),
)
_REWRITERS = ((message, "normalize_line_ends"), (header, "normalize_line_ends"))


@contextmanager
def counted_loop_work(monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopWork]:
    """Count the work while the block runs; it must be entered on the thread of the event loop."""
    work = LoopWork()

    def tokenize(maker: Tokenizer, parsed: message.Message) -> TokenizedMessage:
        work.count("tokenize", len(parsed.raw))
        return make_tokens(maker, parsed)

    make_tokens = Tokenizer.tokenize
    with monkeypatch.context() as patch:
        for module, name in _DECODERS:
            patch.setattr(module, name, work.decoding(getattr(module, name)))
        for module, name in _REWRITERS:
            patch.setattr(module, name, work.rewriting(getattr(module, name)))
        patch.setattr(Tokenizer, "tokenize", tokenize)
        yield work


def hostile_text(charset: str, size: int = LARGEST) -> bytes:
    """Return text of that size in the charset."""
    unit = HOSTILE[charset]
    return unit * (size // len(unit))


def hostile_mail(charset: str, size: int = LARGEST) -> bytes:
    """Return a message of that size whose text is in the charset."""
    head = (
        f"From: Ann <ann@example.org>\r\nSubject: {charset}\r\nMessage-ID: <{charset}@example.org>\r\n"
        f"Content-Type: text/plain; charset={charset}\r\n\r\n"
    ).encode()
    text = hostile_text(charset, size - len(head) - size // 35 - 80)
    return head + b"\r\n".join(text[start : start + 72] for start in range(0, len(text), 72)) + b"\r\n"
