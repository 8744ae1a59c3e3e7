"""Encoded words: bounded, and text that a mail program encodes comes back as it was."""

from __future__ import annotations

import base64

from nbstream.mail.encoded_words import decode_encoded_words
from tests.fuzz.target import FuzzTarget


def _check(data: bytes) -> None:
    text = decode_encoded_words(data)
    assert len(text) <= 4 * len(data)

    original = data.decode("utf-8", "replace")
    content = original.encode()
    words = [b"=?utf-8?B?%s?=" % base64.b64encode(content), b"=?UTF-8*en?q?%s?=" % _q_encoded(content)]
    for word in words:
        assert decode_encoded_words(word) == original
        assert decode_encoded_words(b"a " + word + b"\r\n " + word + b" z") == f"a {original}{original} z"
    if data.isascii() and b"=?" not in data and b"\r\n" not in data:
        assert text == data.strip().decode("ascii")


def _q_encoded(content: bytes) -> bytes:
    return b"".join(b"=%02X" % byte for byte in content)


TARGET = FuzzTarget(
    _check,
    (
        b"=?utf-8?q?caf=C3=A9?= and =?iso-8859-1?B?5A==?=",
        b"=?utf-8?b?w6Q?=\r\n =?utf-8?q?_=?= =?x?q?a b?=",
        b"=?utf-7?q?+AOQ-?= =?gb2312?b?xOO6ww==?=",
        b"=?=?utf-8?q?a?=?==?utf-8?q?b?=",
        b"plain \xe4 text",
    ),
    words=(b"=?utf-8?q?", b"=?utf-8?b?", b"?=", b"=?", b"?= =?", b"=?hz?q?", b"=?utf-16?b?", b"=?iso-2022-jp?b?"),
    max_bytes=2000,
    mutations=1500,
)
