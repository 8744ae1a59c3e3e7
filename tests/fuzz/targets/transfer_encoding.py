"""Transfer encodings: what is encoded comes back, and what is broken has a bounded result."""

from __future__ import annotations

import base64

from nbstream.mail.encoded_words import decode_base64, decode_transfer_encoding
from nbstream.mail.message import decode_unread_end
from tests.fuzz.target import Choices, FuzzTarget

_ENCODINGS = ("base64", "quoted-printable", "7bit", "x-uuencode", "")


def _check(data: bytes) -> None:
    choices = Choices(data)
    cut = choices.number(8)
    content = choices.rest
    for encoding in _ENCODINGS:
        assert len(decode_transfer_encoding(content, encoding)) <= len(content)
    encoded = base64.encodebytes(content)
    assert decode_transfer_encoding(encoded, "base64") == content
    assert decode_base64(encoded.rstrip(b"=\n")) == content  # padding is often missing
    shortened = decode_base64(encoded[: len(encoded) - cut])
    assert content.startswith(shortened)
    assert decode_transfer_encoding(_quoted_printable(content), "quoted-printable") == content
    assert len(decode_unread_end(content, "utf-8")) <= 2 * len(content) + 2


def _quoted_printable(content: bytes) -> bytes:
    lines = (content[start : start + 25] for start in range(0, len(content), 25))
    return b"=\r\n".join(b"".join(b"=%02X" % byte for byte in line) for line in lines)


TARGET = FuzzTarget(
    _check,
    (
        b"\0caf\xc3\xa9 =3D soft=\r\nbreak",
        b"\3"
        + base64.encodebytes(b"some text that is longer than one line of base64 may be, so it has two of them"),
        b"\1=\r\n==\r\nAAAA=\r\n",
        b"\0" + base64.b64encode(bytes(range(256))),
    ),
    words=(b"=\r\n", b"=3D", b"==", b"AAAA", b"=0", b"\r\n"),
    max_bytes=2000,
    mutations=1500,
)
