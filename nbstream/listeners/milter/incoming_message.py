"""A message that comes in by the steps of the milter protocol: envelope, header fields, pieces of the body.

Rules: a message that is too large is judged by its beginning: the mail server has set its own limit, and the
filter looks at the beginning alone anyway. But all of its header is needed, to remove forged fields: one that is
too large, or has too many fields, is refused. What is counted is the message as it is held.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.listeners.smtp import replies
from nbstream.mail.content_buffer import ContentBuffer
from nbstream.relay.next_hop import SmtpPath

if TYPE_CHECKING:
    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.wire.smtp_reply import SmtpReply

_log = logging.getLogger(__name__)

_MAX_FIELD_NAMES_BYTES = (
    1 << 20
)  # some ten thousand fields; each name of ours is searched in them, in the event loop
_RECIPIENT_BYTES = 500  # what a recipient takes in memory, beside its text


@dataclass(frozen=True, slots=True)
class MilterSubject:
    """A Subject field: its name as it is written, and all behind its colon, with CRLF in its folds."""

    name: str
    value: bytes


class MilterMessage:
    """A message of at most ``limit`` bytes; ``problem`` is the reply once it is refused.

    ``sender`` is its address, and empty for the null sender.
    ``has_leading_space``: the values of header fields begin right behind the colon (``HDR_LEADSPC``).
    """

    def __init__(
        self, sender: str, limit: int, bytes_in_flight: BytesInFlight, *, has_leading_space: bool
    ) -> None:
        self.sender = sender
        self.problem: SmtpReply | None = None
        self.recipients: list[SmtpPath] = []
        self.given_recipients: list[str] = []
        """The recipients as the mail server gave them; it knows them by this text alone."""
        self.content_has_begun = False
        self.is_full = False
        """Whether more of the body is of no use."""
        self.subject: MilterSubject | None = None
        """The first Subject."""
        self._limit = limit
        self._bytes_in_flight = bytes_in_flight
        self._reserved = 0
        self._colon = b":" if has_leading_space else b": "
        self._content = ContentBuffer()
        self._field_names = ContentBuffer()
        self._has_body = False

    def add_recipient(self, address: str, given: str) -> None:
        """Add a recipient: its address, and the text by which the mail server knows it."""
        if self._reserve(len(address) + len(given) + _RECIPIENT_BYTES):
            self.recipients.append(SmtpPath(address))
            self.given_recipients.append(given)

    def add_field(self, name: bytes, value: bytes) -> None:
        """Add a header field, whose folds are line feeds or CRLF."""
        self.content_has_begun = True
        if b"\n" in value:
            value = value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        line = b"".join((name, self._colon, value, b"\r\n"))
        # The names are counted by what the mail server counts, and not by what may look like a field in a value.
        key = b"\0%s\0" % name.rstrip(b" \t").lower()
        if len(self._content) + len(line) > self._limit:
            self._refuse(replies.MESSAGE_TOO_BIG)
        elif len(self._field_names) + len(key) > _MAX_FIELD_NAMES_BYTES:
            self._refuse(replies.TOO_MANY_FIELDS)
        elif self._reserve(len(line) + len(key)):
            self._content.append(line)
            self._field_names.append(key)
            if key == b"\0subject\0" and self.subject is None and self._reserve(len(line)):
                self.subject = MilterSubject(name.rstrip(b" \t").decode("ascii"), line[len(name) + 1 : -2])

    def add_body(self, piece: bytes) -> None:
        """Add the next bytes of the body."""
        self.content_has_begun = True
        if not piece:
            return
        if not self._has_body:
            self._has_body = True
            piece = b"\r\n" + piece
        room = self._limit - len(self._content)
        self.is_full = len(piece) > room
        kept = memoryview(piece)[: max(0, room)]
        if self._reserve(len(kept)):
            self._content.append(kept)

    def take_content(self) -> bytes:
        """Return the message, and forget it; the line ends in its body are as they came."""
        if not self._has_body:
            self._content.append(b"\r\n")
        return self._content.take()

    def take_field_names(self) -> bytes:
        """Return the names of the header fields in their order, in lower case, each between two NULs."""
        return self._field_names.take()

    def release(self) -> None:
        """Give back the bytes that are reserved for the message."""
        self._bytes_in_flight.release(self._reserved)
        self._reserved = 0

    def _reserve(self, size: int) -> bool:
        """Reserve so many bytes more and return True, or refuse the message."""
        if self.problem:
            return False
        if not self._bytes_in_flight.reserve(size, held=self._reserved):
            self._refuse(replies.TOO_MANY_BYTES_IN_FLIGHT)
            return False
        self._reserved += size
        return True

    def _refuse(self, problem: SmtpReply) -> None:
        if self.problem is None:
            _log.warning("milter: a message was refused: %s", problem)
        self.problem = problem
        self.release()
        self._content, self._field_names = ContentBuffer(), ContentBuffer()
