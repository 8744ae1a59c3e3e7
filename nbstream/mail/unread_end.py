"""The text at the end of a message of which only the beginning is parsed.

A reader sees all of a message, so a sender could put what he sells behind a megabyte that nobody sees: a comment,
a picture. Therefore the last bytes are read too. They have no header of their own, and the one that says what they
are may be in the middle, which is not read. So they are read as what they look like, line by line.

Rules: nothing here raises, and every byte is read a fixed number of times, whatever it is.
"""

from __future__ import annotations

import binascii
import re

from nbstream.mail.charsets import decode_long_text

# Possessive within a line, so that the pattern never goes back. The group of a line is not: after a line that only
# begins like base64, a possessive group of CPython before 3.11.5 ends in the middle of that line.
_BASE64_LINES = re.compile(rb"^(?:[A-Za-z0-9+/]++={0,2}+\r\n)+", re.MULTILINE)
_MIN_BASE64_BYTES = 60
# Text in base64 has lines of 60 to 76 characters. What has shorter ones may also be one word a line.
_MIN_BINARY_LINE_BYTES = 40
_CONTROL_BYTES = bytes({*range(32), 127} - set(b"\t\n\r\f\x1b"))  # ISO 2022 has ESC


def decode_unread_end(raw: bytes, charset: str | None) -> str:
    """Return the text in ``raw``, the last bytes of a message (CRLF line ends), in ``charset`` where that fits.

    Lines of base64 are decoded and left out where they are no text (a picture). The rest is read as
    quoted-printable where it looks like that. Header fields and delimiters of parts stay in the text.
    """
    # The last line may have no end, and the first one no beginning.
    lines = raw + b"\r\n"
    texts: list[str] = []
    plain: list[bytes] = []
    end = 0
    for run in _BASE64_LINES.finditer(lines):
        content = _decode_base64_lines(run[0])
        if content is not None:
            plain.append(lines[end : run.start()])
            texts.append(decode_long_text(content, charset))
            end = run.end()
    plain.append(lines[end:])
    rest = b"\r\n".join(plain)
    # In quoted-printable "=" itself is encoded, and lines longer than 76 characters are broken by "=".
    if b"=3D" in rest or b"=\r\n" in rest:
        rest = binascii.a2b_qp(rest)
    return "\n".join((decode_long_text(rest, charset), *texts))


def _decode_base64_lines(lines: bytes) -> bytes | None:
    """Return the text that these lines encode, nothing if it is binary, None if they are no base64."""
    if len(lines) < _MIN_BASE64_BYTES:
        return None
    letters = lines.translate(None, b"\r\n=")
    for first in range(4):  # the first line may begin within a group of four
        content = binascii.a2b_base64(letters[first : len(letters) - (len(letters) - first) % 4])
        if len(content.translate(None, _CONTROL_BYTES)) == len(content):
            return content
    is_binary = len(lines) >= _MIN_BINARY_LINE_BYTES * lines.count(b"\n")
    return b"" if is_binary else None
