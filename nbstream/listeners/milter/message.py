"""A message that comes in by the steps of the milter protocol: envelope, header fields, pieces of the body.

Rules: a message that is too large is judged by its beginning: the mail server has set its own limit, and the
filter looks at the beginning alone anyway. But all of its header is needed, to remove forged fields: one that is
too large, or has too many fields, is refused. So is a message with too many recipients, or with an address that is
longer than SMTP permits: each pattern of the configuration would be matched against it. What is counted is the
message as it is held.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import SmtpPath
from nbstream.mail.lines import ContentBuffer
from nbstream.server import smtp_replies
from nbstream.server.limits import Reservation

if TYPE_CHECKING:
    from nbstream.delivery.next_hop import SmtpReply
    from nbstream.server.limits import BytesInFlight

_log = logging.getLogger(__name__)

MAX_FIELDS = 10_000
"""No message has so many. Each costs the event loop some microseconds, and one of three bytes costs no less."""

MAX_RECIPIENTS = 10_000
"""Ten times as many as mail servers send. Each costs the event loop some microseconds when the message ends."""

MAX_ADDRESS_CHARACTERS = 4096
"""As many as a command of SMTP may have here; a path has 256 (RFC 5321 4.5.3.1.3)."""

_MAX_FIELD_NAMES_BYTES = 1 << 20  # each name of ours is searched in them, in the event loop
_RECIPIENT_BYTES = 500  # what a recipient takes in memory, beside its text


@dataclass(frozen=True, slots=True)
class MilterSubject:
    """A Subject field: its name as it is written, and all behind its colon, with CRLF in its folds."""

    name: str
    value: bytes


class MilterContent:
    """A message of at most ``limit`` bytes; ``problem`` is the reply once it is refused.

    ``sender`` is its address, and empty for the null sender.
    ``has_leading_space``: the values of header fields begin right behind the colon (``HDR_LEADSPC``).
    """

    def __init__(
        self, sender: str, limit: int, bytes_in_flight: BytesInFlight, *, has_leading_space: bool
    ) -> None:
        self.sender = ""
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
        self._reservation = Reservation(bytes_in_flight)
        self._colon = b":" if has_leading_space else b": "
        self._content = ContentBuffer()
        self._field_names = ContentBuffer()
        self._field_count = 0
        self._has_body = False
        if len(sender) > MAX_ADDRESS_CHARACTERS:
            self._refuse(smtp_replies.ADDRESS_TOO_LONG)
        elif self._reserve(len(sender)):
            self.sender = sender

    def add_recipient(self, address: str, given: str) -> None:
        """Add a recipient: its address, and the text by which the mail server knows it."""
        if len(given) > MAX_ADDRESS_CHARACTERS:
            self._refuse(smtp_replies.ADDRESS_TOO_LONG)
        elif len(self.recipients) == MAX_RECIPIENTS:
            self._refuse(smtp_replies.TOO_MANY_RECIPIENTS_OF_MESSAGE)
        elif self._reserve(len(address) + len(given) + _RECIPIENT_BYTES):
            self.recipients.append(SmtpPath(address))
            self.given_recipients.append(given)

    def add_field(self, name: bytes, value: bytes) -> None:
        """Add a header field, whose folds are line feeds or CRLF."""
        self.content_has_begun = True
        if self.problem:
            return
        self._field_count += 1
        if b"\n" in value:
            value = value.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        line = b"".join((name, self._colon, value, b"\r\n"))
        # The names are counted by what the mail server counts, and not by what may look like a field in a value.
        key = b"\0%s\0" % name.rstrip(b" \t").lower()
        if len(self._content) + len(line) > self._limit:
            self._refuse(smtp_replies.MESSAGE_TOO_BIG)
        elif self._field_count > MAX_FIELDS or len(self._field_names) + len(key) > _MAX_FIELD_NAMES_BYTES:
            self._refuse(smtp_replies.TOO_MANY_FIELDS)
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
        self._reservation.release()

    def _reserve(self, size: int) -> bool:
        """Reserve so many bytes more and return True, or refuse the message."""
        if self.problem:
            return False
        if not self._reservation.add(size):
            self._refuse(smtp_replies.TOO_MANY_BYTES_IN_FLIGHT)
            return False
        return True

    def _refuse(self, problem: SmtpReply) -> None:
        """Refuse the message, unless it was refused before."""
        if self.problem is None:
            _log.warning("milter: a message was refused: %s", problem)
            self.problem = problem
        self.release()
        self._content, self._field_names = ContentBuffer(), ContentBuffer()
