"""Content transfer encodings (RFC 2045, section 6): base64 and quoted-printable, as mail programs read them."""

from __future__ import annotations

import binascii

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
