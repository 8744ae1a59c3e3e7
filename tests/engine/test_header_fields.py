"""Header fields of every kind give the same tokens and keys in both engines."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.mail.message import Message
from nbstream.tokens.native_tokenizer import NativeTokenizer
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from tests.harness.native import native_library

_NAMES = (
    "From", "To", "Cc", "Reply-To", "Return-Path", "Sender", "Subject", "Message-ID", "Date", "X-Mailer",
    "DKIM-Signature", "DomainKey-Signature", "ARC-Seal", "Received", "X-Other", "URL", "body", "References",
    "In-Reply-To", "Content-Type", "Content-Disposition", "List-Id", "List-Post", "X-Uuid", "X-Spam-Level",
    "X-A-Authentication-B", "Status", "X-UIDL", "Authentication-Results", "RECEIVED", "x" * 79 + "-spam",
)  # fmt: skip
_PIECES = (
    b"a", b"B", b"9", b"word", b"WORD", b"x@y.example.org", b"@", b".", b" ", b"  ", b"\t", b"\r\n ", b"\x1c",
    b"\x1f", b"\x0b", b"\x00", b"\x7f", b"<", b">", b"(", b")", b",", b":", b";", b'"', b"'", b"=", b"?",
    b"=?utf-8?q?x?=", b"=?utf-8?b?w6k=?=", b"\xc3\xa9", b"\xe9", b"+0200", b" GMT", b" (CEST)", b"d=", b"s=",
    b"mx.example.org; spf=pass smtp.mailfrom=a.b.c", b"Re:", b"192.0.2.1", b"a.b.c.d.e.f", b"c" * 300, b"x." * 60,
    b"text/plain", b"boundary=", b"filename=", b"charset=",
    *(
        chr(letter).encode()
        for letter in (0xC9, 0xDF, 0x3A3, 0x130, 0x41A, 0x438, 0x4E2D, 0x3042, 0xFF21, 0xFB01, 0x1C5, 0x301)
    ),
    *(chr(letter).encode() for letter in (0x295, 0xFA6C, 0xA0, 0x2028, 0x201C, 0x1F600)),
)  # fmt: skip
_VALUES = st.lists(st.sampled_from(_PIECES), max_size=40).map(b"".join)
_FIELDS = st.lists(st.tuples(st.sampled_from(_NAMES), _VALUES), max_size=60)
_OPTIONS = TokenizerOptions(trusted_authserv_ids=frozenset({"mx.example.org"}))


@pytest.fixture(scope="module")
def native() -> Tokenizer:
    return NativeTokenizer(_OPTIONS, native_library())


@given(_FIELDS)
def test_fields_give_the_same_tokens(native: Tokenizer, fields: Sequence[tuple[str, bytes]]) -> None:
    header = b"".join([b"%s: %s\r\n" % (name.encode(), value) for name, value in fields])
    message = Message.parse(b"Date: x\r\n" + header + b"\r\ntext\r\n")
    assert native.tokenize(message) == Tokenizer(_OPTIONS).tokenize(message)


@pytest.mark.parametrize("letter", ["\u0295", "\u01c5", "\ufa6c", "\u24b6", "\u13a0", "\U0001f150", "\U0001f6dc"])
def test_letters_whose_case_is_special_are_read_alike(native: Tokenizer, letter: str) -> None:
    header = f"From: J{letter} <a@b.example>\r\nSubject: A{letter}\r\nX-O: {letter}\r\n\r\nx{letter}\r\n"
    message = Message.parse(header.encode())
    assert native.tokenize(message) == Tokenizer(_OPTIONS).tokenize(message)
