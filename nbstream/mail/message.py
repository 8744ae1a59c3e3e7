"""The message: raw bytes, header fields, parts, and the key that identifies it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nbstream.mail import header_fields, mime
from nbstream.mail.charsets import decode_ends, decode_long_text
from nbstream.mail.lines import normalize_line_ends

if TYPE_CHECKING:
    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.mime import MimePart


# The text at the end of a message of which only the beginning is parsed.
#
# A reader sees all of a message, so a sender could put an offer behind a megabyte that nobody sees: a comment, a
# picture. Therefore the last bytes are read too. They have no header of their own, and the one that says what they
# are may be in the middle, which is not read. So they are read as what they look like, line by line.
#
# Rules: nothing here raises, and every byte is read a fixed number of times, whatever it is.

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


_WHITE_SPACE = b" \t\r\n\f\v"
_WHITE_SPACE_OF_TEXT = _WHITE_SPACE + b"\x1c\x1d\x1e\x1f"  # the ASCII characters at which str.split() splits
_DEFAULT_LIMITS = mime.MessageLimits()
_KEY_FIELDS = ("message-id", "date", "from", "subject")
_MAIL_FIELDS = frozenset(
    {"from", "to", "date", "subject", "received", "message-id", "return-path", "mime-version", "content-type"}
)
_KEY_BYTES = 15  # 120 bits: 24 characters of base32 without padding


@dataclass(frozen=True)
class Message:
    """A message; ``raw`` has CRLF line ends, and ``limits`` say how much of it is read.

    ``Message.parse`` makes one and never raises: any bytes are a message, perhaps one without fields. Where
    ``is_bare_text`` is true, nothing is read as a field: all of it is text.
    """

    raw: bytes = field(repr=False)
    limits: mime.MessageLimits = field(default_factory=mime.MessageLimits, repr=False)
    is_bare_text: bool = False

    @classmethod
    def parse(cls, raw: bytes, limits: mime.MessageLimits | None = None) -> Message:
        """Return the message in ``raw``, which may have line ends of any kind (see ``normalize_line_ends``)."""
        return cls(normalize_line_ends(raw), limits or _DEFAULT_LIMITS)

    @classmethod
    def from_text(cls, text: str, limits: mime.MessageLimits | None = None) -> Message:
        """Return the message of a text that is not mail, such as an SMS: "Date: tonight?" is not a field in it."""
        return cls(
            normalize_line_ends(text.encode("utf-8", "replace")),
            limits or _DEFAULT_LIMITS,
            is_bare_text=True,
        )

    @classmethod
    def from_encoded_text(cls, content: bytes, charset: str | None, limits: mime.MessageLimits) -> Message:
        """Return the message of a text that is not mail, in a charset as ``charsets.decode_text`` knows it.

        It is that of ``from_text``, but of a text beyond the limits ``raw`` has only what is read.
        """
        head, tail = decode_ends(content, charset, limits.look_bytes, limits.end_bytes)
        message = cls.from_text(head, limits)
        if not tail:
            return message
        end = normalize_line_ends(tail.encode("utf-8", "replace"))
        return cls(message.raw[: limits.look_bytes] + end[-limits.end_bytes :], limits, is_bare_text=True)

    @cached_property
    def parts(self) -> tuple[MimePart, ...]:
        """The MIME parts in document order; the first one is the message itself."""
        if self.is_bare_text:
            return (mime.MimePart("text/plain", depth=0, payload=self.raw[: self.limits.look_bytes]),)
        return mime.parse_parts(self.raw, self.limits)

    @cached_property
    def unread_end(self) -> str:
        """The text at the end of a message that is too long to be parsed as a whole; empty for any other message.

        At most ``limits.end_bytes`` bytes from the end are read, of what ``parts`` does not contain. It has no
        part in ``key``. Where there are ``limits.max_parts`` parts or more, they may be in ``parts`` too. The
        header of the message is never among them.
        """
        if not self.is_mail:
            start = self.limits.look_bytes
        elif len(self.parts) < self.limits.max_parts:
            start = mime.parsed_bytes(self.raw, self.limits)
        else:
            start = header_fields.body_offset(self.raw)
        end = self.raw[max(start, len(self.raw) - self.limits.end_bytes) :]
        return decode_unread_end(end, self._last_charset) if end else ""

    @property
    def _last_charset(self) -> str | None:
        return next((part.charset for part in reversed(self.parts) if part.content_type.startswith("text/")), None)

    @property
    def fields(self) -> tuple[HeaderField, ...]:
        """The header fields of the message itself, in order."""
        return self.parts[0].fields

    @cached_property
    def is_mail(self) -> bool:
        """Whether there is a header: a bare text may contain a colon, but not the field names of mail."""
        return not _MAIL_FIELDS.isdisjoint(self._first_fields)

    def first_field(self, name: str) -> HeaderField | None:
        """Return the first header field of this name (lower case), or None."""
        return self._first_fields.get(name)

    def find_field(self, name: str) -> HeaderField | None:
        """Return ``first_field(name)`` for one who asks nothing else: no other field or part is read."""
        if self.is_bare_text:
            return None
        read = self.raw[: mime.parsed_bytes(self.raw, self.limits)]
        end = min(header_fields.body_offset(read), header_fields.MAX_HEADER_BYTES)
        return header_fields.find_field(read, end, name)

    @cached_property
    def _first_fields(self) -> dict[str, HeaderField]:
        return {field.name: field for field in reversed(self.fields)}

    @cached_property
    def key(self) -> str:
        """The identity of the message: 24 characters of ``a-z2-7``.

        Two byte strings are the same message when both conditions hold, white space ignored:

        - their first Message-ID, Date, From and Subject are equal after encoded words are decoded;
        - their leaf parts, in order, have equal content after transfer decoding.

        Nothing else counts. So the message stays the same when a server on the way adds or reorders trace fields
        and verdict fields, folds header lines differently, changes line ends or re-encodes a part. It becomes
        another message with another Message-ID, with another body under the same Message-ID, and when a server
        marks the subject, adds a footer, or adds a Message-ID where there was none.

        A text without the field names of mail is identified by its characters, white space ignored. Of a message
        beyond the limits, only what is read counts; that is measured before transfer decoding.
        """
        digest = hashlib.blake2b(digest_size=_KEY_BYTES)
        if not self.is_mail:
            digest.update(self.raw[: self.limits.look_bytes].translate(None, _WHITE_SPACE))
            return _base32_text(digest.digest())
        for name in _KEY_FIELDS:
            digest.update(name.encode() + b"\0" + key_content(self.first_field(name)) + b"\0")
        for part in self.parts:
            if not part.is_container:
                digest.update(part.payload.translate(None, _WHITE_SPACE))
                digest.update(b"\0")
        return _base32_text(digest.digest())


def key_content(field: HeaderField | None) -> bytes:
    """Return what ``Message.key`` reads of a field: its text without white space."""
    if field is None:
        return b""
    if field.value.isascii() and b"=" not in field.value:  # the decoder is not needed
        return field.value.translate(None, _WHITE_SPACE_OF_TEXT)
    return "".join(field.text.split()).encode("utf-8", "surrogatepass")


def _base32_text(digest: bytes) -> str:
    return base64.b32encode(digest).decode("ascii").lower()
