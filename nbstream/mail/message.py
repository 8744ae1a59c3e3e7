"""The message: raw bytes, header fields, parts, and the key that says which message it is."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from nbstream.mail import header_fields, mime

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.mail.header_fields import HeaderField
    from nbstream.mail.mime import MimePart

_WHITE_SPACE = b" \t\r\n\f\v"
_WHITE_SPACE_OF_TEXT = _WHITE_SPACE + b"\x1c\x1d\x1e\x1f"  # what str.split() splits at, of ASCII
_DEFAULT_LIMITS = mime.MessageLimits()
_KEY_FIELDS = ("message-id", "date", "from", "subject")
_MAIL_FIELDS = frozenset(
    {"from", "to", "date", "subject", "received", "message-id", "return-path", "mime-version", "content-type"}
)
_KEY_BYTES = 15  # 120 bits: 24 characters of base32 without padding


@dataclass(frozen=True)
class Message:
    """A message as it is looked at; ``raw`` has CRLF line ends.

    Made by ``Message.parse``, which never raises: any bytes are a message, if perhaps one without fields. Of a
    message that ``is_bare_text`` nothing is read as a field: it is all text.
    """

    raw: bytes = field(repr=False)
    limits: mime.MessageLimits = field(default_factory=mime.MessageLimits, repr=False)
    is_bare_text: bool = False

    @classmethod
    def parse(cls, raw: bytes, limits: mime.MessageLimits | None = None) -> Message:
        """The message in ``raw``, whose line ends may be of any kind: see ``normalize_line_ends``."""
        return cls(header_fields.normalize_line_ends(raw), limits or _DEFAULT_LIMITS)

    @classmethod
    def from_text(cls, text: str, limits: mime.MessageLimits | None = None) -> Message:
        """A text that is known to be no mail, such as a comment or an SMS: "Date: tonight?" is no field in it."""
        return cls(
            header_fields.normalize_line_ends(text.encode("utf-8", "replace")),
            limits or _DEFAULT_LIMITS,
            is_bare_text=True,
        )

    @cached_property
    def parts(self) -> tuple[MimePart, ...]:
        """The MIME parts in document order, the message's own node first."""
        if self.is_bare_text:
            return (mime.MimePart("text/plain", depth=0, payload=self.raw[: self.limits.look_bytes]),)
        return mime.parse_parts(self.raw, self.limits)

    @property
    def fields(self) -> tuple[HeaderField, ...]:
        """The message's own header fields, in order."""
        return self.parts[0].fields

    @cached_property
    def is_mail(self) -> bool:
        """Whether there is a header block at all: a bare text may hold a colon, but not a mail's field names."""
        return not _MAIL_FIELDS.isdisjoint(self._first_fields)

    def first_field(self, name: str) -> HeaderField | None:
        """The first header field of this lower-case name."""
        return self._first_fields.get(name)

    @cached_property
    def _first_fields(self) -> dict[str, HeaderField]:
        return {each.name: each for each in reversed(self.fields)}

    @cached_property
    def key(self) -> str:
        """The identity of the message: 24 characters of ``a-z2-7``.

        Two byte strings are the same message when their first Message-ID, Date, From and Subject say the same
        (encoded words decoded, white space ignored) and their leaf parts, in order, hold the same content after
        the transfer encoding is taken off, white space ignored. Nothing else counts. So a hop may add or reorder
        trace fields and verdict headers, rewrap header lines, change line ends or re-encode a part, and it stays
        the same message; another Message-ID, or another body under the same Message-ID, makes another one, and so
        does a hop that marks the subject, adds a footer, or adds a Message-ID where there was none.

        What has none of a mail's fields is its characters, white space ignored. Of a message beyond the limits,
        what is looked at counts, and that is measured before the transfer encoding is taken off.
        """
        return self._key(_field_without_white_space)

    @cached_property
    def former_key(self) -> str | None:
        """The key that nbstream 0.1.0 gave the message on CPython before 3.11.5; None where it is ``key``.

        There no encoded word was decoded. What was learned under it stands in the ledger under it.
        """
        if not self.is_mail or not any(map(_has_encoded_words, map(self.first_field, _KEY_FIELDS))):
            return None
        former = self._key(_undecoded)
        return None if former == self.key else former

    def _key(self, read: Callable[[HeaderField | None], bytes]) -> str:
        """The key, by what ``read`` makes of each of the fields that count."""
        digest = hashlib.blake2b(digest_size=_KEY_BYTES)
        if not self.is_mail:
            digest.update(self.raw[: self.limits.look_bytes].translate(None, _WHITE_SPACE))
            return _base32_text(digest.digest())
        for name in _KEY_FIELDS:
            digest.update(name.encode() + b"\0" + read(self.first_field(name)) + b"\0")
        for part in self.parts:
            if not part.is_container:
                digest.update(part.payload.translate(None, _WHITE_SPACE))
                digest.update(b"\0")
        return _base32_text(digest.digest())


def _field_without_white_space(field: HeaderField | None) -> bytes:
    """The text of a field, by a short way where it is what it is written as."""
    if field is None:
        return b""
    if field.value.isascii() and b"=" not in field.value:
        return field.value.translate(None, _WHITE_SPACE_OF_TEXT)
    return "".join(field.text.split()).encode("utf-8", "surrogatepass")


def _has_encoded_words(field: HeaderField | None) -> bool:
    return field is not None and b"=?" in field.value


def _undecoded(field: HeaderField | None) -> bytes:
    """As ``_field_without_white_space``, but encoded words stay as they are written."""
    if field is None or not _has_encoded_words(field):
        return _field_without_white_space(field)
    return "".join(header_fields.undecoded_words(field.value).split()).encode("utf-8", "surrogatepass")


def _base32_text(digest: bytes) -> str:
    return base64.b32encode(digest).decode("ascii").lower()
