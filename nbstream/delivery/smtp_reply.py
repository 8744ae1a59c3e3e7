"""The reply of an SMTP or LMTP server, and how it is written and read on the wire (RFC 5321 4.2)."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_REPLY_BYTES = 32 * 1024
"""A longer reply is malformed. RFC 5321 asks for lines of 512 bytes; a reply to EHLO has some dozen of them."""

_UNSAFE = re.compile(r"[^\x20-\x7e\n]")

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\n]*)|\r?)\n")


@dataclass(frozen=True, slots=True)
class SmtpReply:
    """A reply: the three-digit code, and the text with its enhanced status code.

    A line feed parts the lines of the text.
    """

    code: int
    text: str

    @property
    def accepted(self) -> bool:
        """Whether the code is 2xx."""
        return 200 <= self.code < 300

    def render(self) -> bytes:
        """Return the reply as it is sent, but without its last CRLF.

        Control characters and characters outside ASCII become ``?``.
        """
        if self.text.isascii() and self.text.isprintable():  # the usual reply has one line, and nothing to replace
            return f"{self.code} {self.text}".encode("ascii")
        lines = _UNSAFE.sub("?", self.text).split("\n")
        head = [f"{self.code}-{line}" for line in lines[:-1]]
        return "\r\n".join([*head, f"{self.code} {lines[-1]}"]).encode("ascii")

    def __str__(self) -> str:
        return self.render().decode("ascii")


class MalformedReply(ValueError):
    """A server sent something that is no reply."""


class SmtpReplyReader:
    """Makes replies of the bytes of a server, in whatever pieces they come."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._searched = 0  # bytes of the buffer in which there is no line feed
        self._texts: list[str] = []  # the lines of a reply that has more of them
        self._reply_bytes = 0  # of those lines

    @property
    def unread_bytes(self) -> int:
        """How many bytes have come that belong to no reply which was read."""
        return self._reply_bytes + len(self._buffer)

    @property
    def has_unread_bytes(self) -> bool:
        """Whether there are such bytes."""
        return bool(self._buffer or self._reply_bytes)

    def feed(self, data: bytes) -> None:
        """Take what the server sent."""
        self._buffer += data

    def next_reply(self) -> SmtpReply | None:
        """Return the next whole reply, or None where more has to come. Raises ``MalformedReply``."""
        while (end := self._buffer.find(b"\n", self._searched)) >= 0:
            line = bytes(memoryview(self._buffer)[: end + 1])
            del self._buffer[: end + 1]
            self._searched = 0
            self._reply_bytes += end + 1
            parts = _LINE.match(line)
            if parts is None or self._reply_bytes > MAX_REPLY_BYTES:
                raise MalformedReply(ascii(line.removesuffix(b"\n").removesuffix(b"\r")[:100].decode("latin-1")))
            code, separator, text = parts.groups(b"")
            self._texts.append(text.strip().decode("utf-8", "surrogateescape"))
            if separator != b"-":
                reply = SmtpReply(int(code), "\n".join(self._texts))
                self._texts, self._reply_bytes = [], 0
                return reply
        self._searched = len(self._buffer)
        if self.unread_bytes > MAX_REPLY_BYTES:
            raise MalformedReply("too long")
        return None
