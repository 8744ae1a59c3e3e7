"""The contract between a listener and the next hop of its mail.

Rules: one transaction carries one message. Every step returns the next hop's own reply. A transaction ends with
``data`` or ``abort``, and by itself when a step raises. A step raises ``RelayUnavailable`` where the next hop
gives no reply: the client gets a 451, keeps the message and tries again.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, Protocol

# The reply of an SMTP or LMTP server, and how it is written and read on the wire (RFC 5321 4.2).

MAX_REPLY_BYTES = 32 * 1024
"""A longer reply is malformed. RFC 5321 asks for lines of 512 bytes; a reply to EHLO has some dozen of them."""

_UNSAFE = re.compile(r"[^\x20-\x7e\n]")

_LINE = re.compile(rb"([2-5][0-9]{2})(?:([ -])([^\n]*)|\r?)\n")


class SmtpReply(NamedTuple):
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


@dataclass(frozen=True, slots=True)
class SmtpPath:
    """The path of MAIL or RCPT with its ESMTP parameters (RFC 5321 4.1.2), in the case that the client used.

    ``address`` has no angle brackets, and ``""`` is the null sender. Bytes that are no UTF-8 are surrogate
    escapes.
    """

    address: str
    parameters: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Envelope:
    """The sender of a message, and those of its recipients that the next hop has accepted."""

    sender: SmtpPath
    recipients: tuple[SmtpPath, ...]


class DataReplies(NamedTuple):
    """The final replies to a message: one for all of its recipients, or one for each of them in their order.

    SMTP and a Maildir give one for all, and LMTP gives one for each (RFC 2033 4.2). There is always one at least.
    """

    replies: tuple[SmtpReply, ...]

    @property
    def accepted(self) -> bool:
        """Whether the next hop has taken responsibility for all recipients."""
        return all(reply.accepted for reply in self.replies)

    @property
    def single(self) -> SmtpReply:
        """The one reply for all recipients. Raises ``ValueError`` where there are several."""
        (reply,) = self.replies
        return reply

    def per_recipient(self, recipient_count: int) -> tuple[SmtpReply, ...]:
        """Return one reply for each of the recipients. Raises ``ValueError`` where there are others than those."""
        if len(self.replies) == 1:
            return self.replies * recipient_count
        if len(self.replies) != recipient_count:
            raise ValueError(f"{len(self.replies)} replies for {recipient_count} recipients")
        return self.replies

    def __str__(self) -> str:
        return ", ".join(dict.fromkeys(map(str, self.replies)))


class Transaction(Protocol):
    """One message on its way to the next hop, which has accepted its MAIL."""

    async def rcpt(self, recipient: SmtpPath) -> SmtpReply:
        """Return the next hop's reply to one recipient, whatever it is. Raises ``RelayUnavailable``."""

    async def data(self, content: bytes, fields: bytes = b"") -> DataReplies:
        """Hand over the message and return the next hop's final replies, in the order of the accepted recipients.

        ``content`` has CRLF line ends only and is not dot-stuffed; ``fields`` are header fields that go on top of
        it. With a 2xx the next hop has taken responsibility. Raises ``RelayUnavailable``.
        """

    async def abort(self) -> None:
        """Drop the transaction, at any time. Raises nothing but its own cancellation."""


class NextHop(Protocol):
    """The server or Maildir to which checked mail goes."""

    @property
    def answers_each_recipient(self) -> bool:
        """Whether a message gets a reply for each recipient, and may reach some and not the others."""

    async def features(self) -> frozenset[str]:
        """Return the EHLO keywords of the next hop in upper case, or the usual ones before it was reached.

        Never raises.
        """

    async def begin(self, sender: SmtpPath) -> Transaction:
        """Open a transaction with MAIL.

        Raises ``RelayRefused`` with the next hop's reply, or ``RelayUnavailable``.
        """

    async def problem(self) -> str | None:
        """Return why no mail could leave now, without hosts and paths, or None where it could.

        The answer takes little work and a limited time.
        """

    def read_authorities_again(self) -> None:
        """Go by what ``relay.tls_ca_file`` has now, from the next connection on."""

    async def close(self) -> None:
        """Close what is open. A transaction that has begun may still end, and none can begin any more."""
