"""Encoded words in header fields (RFC 2047): ``=?utf-8?q?caf=C3=A9?=`` becomes "café".

Rules: nothing here raises; an unknown charset or a broken encoding falls back to what ``charsets`` makes of the
bytes. Any value is read in one pass.
"""

from __future__ import annotations

import binascii
import re

from nbstream.mail.charsets import decode_text

_NO_LETTERS = bytes(c for c in range(256) if not ((c < 128 and chr(c).isalnum()) or c in b"+/"))


def decode_transfer_encoding(body: bytes, encoding: str) -> bytes:
    """Return ``body`` after transfer decoding; where ``encoding`` is unknown, ``body`` as it is (RFC 2045 6)."""
    if encoding == "base64":
        return decode_base64(body)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(body)
    return body


def decode_base64(text: bytes) -> bytes:
    """Return the content of base64: foreign characters are ignored, and an incomplete end is cut off."""
    try:
        return binascii.a2b_base64(text)
    except binascii.Error:
        letters = text.translate(None, _NO_LETTERS)
        usable = len(letters) - (len(letters) % 4 == 1)
        return binascii.a2b_base64(letters[:usable] + b"=" * (-usable % 4))


# The first pattern finds the beginning of an encoded word. The second finds what ends its text: "?=". If white
# space or the beginning of another word comes first, there is no encoded word. One pattern for both would need a
# possessive group around a look-ahead, which CPython before 3.11.5 matches wrongly (gh-106052); without possession
# a Subject of 32 kB took 6.6 s. From each beginning the text is read as far as the next beginning, at most.
_ENCODED_WORD = re.compile(rb"=\?([^?\s]{1,64})\?([bBqQ])\?")
_ENCODED_TEXT_END = re.compile(rb"\s|\?=|=\?(?!=)")
_SPACE_BETWEEN_ENCODED_WORDS = re.compile(rb"(\?=)\s+(?==\?[^?\s]{1,64}\?[bBqQ]\?)")


def decode_encoded_words(value: bytes) -> str:
    """Return the raw value of a header field as text: unfolded, with its encoded words decoded (RFC 2047)."""
    unfolded = value.replace(b"\r\n", b"").strip()
    if b"=?" not in unfolded:
        return unfolded.decode("ascii") if unfolded.isascii() else decode_text(unfolded, None)
    joined = _SPACE_BETWEEN_ENCODED_WORDS.sub(rb"\1", unfolded)
    pieces: list[str] = []
    position = 0
    start = _ENCODED_WORD.search(joined)
    while start:
        end = _ENCODED_TEXT_END.search(joined, start.end())
        if end is None:
            break
        if end[0] != b"?=":
            start = _ENCODED_WORD.search(joined, start.start() + 1)
            continue
        text = joined[start.end() : end.start()]
        if start.start() > position:
            pieces.append(decode_text(joined[position : start.start()], None))
        pieces.append(
            decode_text(_decode_word_bytes(start[2], text), start[1].decode("latin-1").partition("*")[0])
        )
        position = end.end()
        start = _ENCODED_WORD.search(joined, position)
    pieces.append(decode_text(joined[position:], None))
    return "".join(pieces)


def _decode_word_bytes(encoding: bytes, text: bytes) -> bytes:
    if encoding in b"qQ":
        return binascii.a2b_qp(text, header=True)
    return decode_base64(text)
