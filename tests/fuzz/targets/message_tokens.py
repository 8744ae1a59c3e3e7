"""The tokens of a whole message: bounded, clean, the same again, and stored as they are."""

from __future__ import annotations

import re

from nbstream.bayes.counts import is_sum
from nbstream.mail.message import Message
from nbstream.mail.mime import MessageLimits
from nbstream.policy.header import MessageReader, escape_token
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.origins import token_origin
from nbstream.tokens.tokenizer import Tokenizer, TokenizerOptions
from nbstream.tokens.tokens import MAX_TOKEN_BYTES, Tokens
from tests.fuzz.target import Choices, FuzzTarget

_LIMITS = (MessageLimits(), MessageLimits(look_bytes=66_000, max_parts=3, max_depth=2))
_TOKENIZERS = (
    Tokenizer(TokenizerOptions(trusted_authserv_ids=frozenset({"mx.example.net"}))),
    Tokenizer(TokenizerOptions(max_tokens=40, own_received_fields=1)),
)
_MAX_TOKENS = (2000, 40)
_UNCLEAN = re.compile(rb"[\x00-\x20\x7f]")
_ESCAPED = re.compile(r"[A-Za-z0-9!$'*+./:>@^_|~%-]*")


def _check(data: bytes) -> None:
    choices = Choices(data)
    limits = choices.option(_LIMITS)
    number = choices.number(len(_TOKENIZERS))
    raw = choices.rest
    if choices.number(8) == 0:
        messages = [Message.from_text(raw.decode("utf-8", "replace"), limits) for _ in range(2)]
    else:
        messages = [MessageReader(limits).read_incoming(raw) for _ in range(2)]
    tokenized, again = map(_TOKENIZERS[number].tokenize, messages)
    assert tokenized == again
    tokens = tokenized.tokens
    assert len(set(tokens.all)) == len(tokens.all) <= _MAX_TOKENS[number]
    for token in tokens.all:
        assert 0 < len(token) <= MAX_TOKEN_BYTES
        assert not is_sum(token)
        assert not _UNCLEAN.search(token)
        assert token_origin(token.decode())
        assert _ESCAPED.fullmatch(escape_token(token))
    assert Tokens.from_all(tokens.all).all == tokens.all
    checked = CheckedMessage(messages[0].key, tokens, 0.5, "unsure")
    stored = CheckedMessage.unpack(checked.key, checked.pack())
    assert stored.tokens.all == tokens.all


TARGET = FuzzTarget(
    _check,
    (
        b"\0\0From: Ann <ann@example.org>\nTo: you@example.net\nSubject: Re: =?utf-8?q?caf=C3=A9?=\n"
        b"Date: Sat, 21 Nov 2026 10:00:00 +0100\nMessage-ID: <1@example.org>\nX-Mailer: Some Program 1.0\n"
        b"Received: from a.example.org (192.0.2.1) by mx.example.net; Sat\n"
        b"Authentication-Results: mx.example.net; spf=pass smtp.mailfrom=ann@example.org\n\n"
        b"Lunch on Friday? http://www.example.org/menu?x=1\n",
        b"\1\1URL: x\nbody: y\nraw: z\n=x: free\nDKIM-Signature: d=example.org; s=s\nSubject: A\n\ntext\n",
        b"\0\0Subject: x\nContent-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\n"
        b"<b>V</b>ia &amp; <a href='http://a.example'>\n"
        b"--b\nContent-Type: image/png; name=a.png\n\n\x89PNG\n--b--\n",
        b"\0\0\0a text message, call 0900 123 now!!!",
        "\0\0Subject: 日本語 한국어 ไทย עברית العربية\n"
        "\n\uff26\uff55\uff4c\uff4c \ufdfa \uff76\uff9e \u2126 ß \u0130 \u017f\n".encode(),
    ),
    words=(
        *(b"Received: from ", b"\nSubject: ", b"\nFrom: ", b"\nX-Mailer: ", b"\nDate: ", b"\nMessage-ID: <"),
        *(
            b"Content-Type: text/html; charset=utf-16\n",
            b"http://",
            b"=?utf-8?b?",
            b"\xef\xb7\xba",
            b"\xf0\x9f\x98\x80",
        ),
        *(b"Authentication-Results: mx.example.net; ", b"ARC-Seal: d=", b"\n\n", b"<html>", b"&#"),
    ),
    mutations=400,
)
