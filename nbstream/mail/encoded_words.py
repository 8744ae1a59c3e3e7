"""Encoded words in header fields (RFC 2047): ``=?utf-8?q?caf=C3=A9?=`` becomes "café".

Rules: nothing here raises; an unknown charset or a broken encoding falls back to what ``charsets`` makes of the
bytes. Any value is read in one pass.
"""

from __future__ import annotations

import binascii
import re

from nbstream.mail.charsets import decode_text

_FOREIGN_TO_BASE64 = bytes(c for c in range(256) if not ((c < 128 and chr(c).isalnum()) or c in b"+/="))
_BASE64_PIECE = re.compile(rb"([^=]+)(=*)")
_SOFT_BREAK_WITH_BLANKS = re.compile(rb"=[ \t]+\r\n")


def decode_transfer_encoding(body: bytes, encoding: str) -> bytes:
    """Return ``body`` after transfer decoding; where ``encoding`` is unknown, ``body`` as it is (RFC 2045 6).

    White space at the end of a line of quoted-printable was added on the way (6.7, rule 3): the "=" before it
    still continues the line.
    """
    if encoding == "base64":
        return decode_base64(body)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(_SOFT_BREAK_WITH_BLANKS.sub(b"=\r\n", body))
    return body


def decode_base64(text: bytes) -> bytes:
    """Return the content of base64: foreign characters are ignored, an incomplete group of four gives what it has.

    Padding that completes a group ends this group alone, as where two encoded texts were joined; other padding is
    ignored. The standard library is given whole groups only, which all versions of it read in the same way.
    """
    letters = text.translate(None, _FOREIGN_TO_BASE64).rstrip(b"=")
    if b"=" not in letters:
        return _decode_letters(letters)
    contents: list[bytes] = []
    pieces: list[bytes] = []
    size = 0
    for match in _BASE64_PIECE.finditer(letters):
        piece, padding = match.groups()
        pieces.append(piece)
        size += len(piece)
        if size % 4 > 1 and size % 4 + len(padding) >= 4:
            contents.append(_decode_letters(b"".join(pieces)))
            pieces, size = [], 0
    return b"".join((*contents, _decode_letters(b"".join(pieces))))


def _decode_letters(letters: bytes) -> bytes:
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
    """Return the raw value of a header field as text: unfolded, with its encoded words decoded (RFC 2047).

    Neighbours with one charset and encoding are decoded as one word: some programs cut a character in two.
    """
    unfolded = value.replace(b"\r\n", b"").strip()
    if b"=?" not in unfolded:
        return unfolded.decode("ascii") if unfolded.isascii() else decode_text(unfolded, None)
    joined = _SPACE_BETWEEN_ENCODED_WORDS.sub(rb"\1", unfolded)
    pieces: list[str] = []
    neighbours: list[bytes] = []
    form = (b"", b"")  # charset and encoding of the neighbours
    position = 0
    start = _ENCODED_WORD.search(joined)
    while start:
        end = _ENCODED_TEXT_END.search(joined, start.end())
        if end is None:
            break
        if end[0] != b"?=":
            start = _ENCODED_WORD.search(joined, start.start() + 1)
            continue
        word_form = (start[1].lower(), start[2].lower())
        if start.start() > position or word_form != form:
            pieces.append(_decode_neighbours(neighbours, form))
            pieces.append(decode_text(joined[position : start.start()], None))
            neighbours, form = [], word_form
        neighbours.append(joined[start.end() : end.start()])
        position = end.end()
        start = _ENCODED_WORD.search(joined, position)
    return "".join((*pieces, _decode_neighbours(neighbours, form), decode_text(joined[position:], None)))


def _decode_neighbours(texts: list[bytes], form: tuple[bytes, bytes]) -> str:
    charset, encoding = form
    text = b"".join(texts)
    content = binascii.a2b_qp(text, header=True) if encoding == b"q" else decode_base64(text)
    return decode_text(content, charset.decode("latin-1").partition("*")[0])
