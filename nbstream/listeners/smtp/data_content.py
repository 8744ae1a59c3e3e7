"""The content of DATA: bytes from the wire become the message, bounded and rewritten while they come.

Rules: the dots of dot-stuffing are removed, a lone CR or LF becomes CRLF, and the final dot is left out. The
message is the same wherever the bytes are cut into chunks. Each chunk is rewritten when it comes, so that nothing
is left to do at the end: the event loop must never stand for long. What is counted is the message as it is held.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.listeners.smtp.codec import remove_dot_stuffing
from nbstream.mail.lines import ContentBuffer, normalize_line_ends
from nbstream.server import smtp_replies
from nbstream.server.limits import Reservation

if TYPE_CHECKING:
    from nbstream.delivery.smtp_reply import SmtpReply
    from nbstream.server.limits import BytesInFlight, ListenerLimits

_log = logging.getLogger(__name__)

DATA_END = b"\r\n.\r\n"
"""The end of DATA. Nothing else ends it (RFC 5321 4.1.1.4)."""

_LAST_LINE = b".\r\n"


class IncomingMessage:
    """A message of at most ``limit`` bytes that comes in; ``problem`` is the reply once it is refused."""

    def __init__(self, limits: ListenerLimits, bytes_in_flight: BytesInFlight) -> None:
        self.problem: SmtpReply | None = None
        self._limits = limits
        self._size = 0
        self._reservation = Reservation(bytes_in_flight)
        self._content = ContentBuffer()
        self._unfinished_bytes = b""
        self._has_begun = False

    @property
    def exceeds_read_limit(self) -> bool:
        """Whether so much has come that the end is not waited for any more."""
        return self._size > self._limits.max_discarded_bytes

    def add(self, chunk: bytes, *, last: bool) -> None:
        """Add the next bytes.

        The first chunk begins with the CRLF before the message, and the ``last`` one ends with ``DATA_END``.
        """
        self._size += len(chunk)
        if self.problem:
            return
        if self._size - len(DATA_END) > self._limits.max_message_bytes:
            self._refuse(smtp_replies.MESSAGE_TOO_BIG)
        elif self._reserve(len(chunk)):
            data = self._unfinished_bytes + chunk
            end = len(data) - (len(_LAST_LINE) if last else _unfinished_length(data))
            self._unfinished_bytes = data[end:]
            rewritten = normalize_line_ends(remove_dot_stuffing(data[:end]))
            if end and self._reserve(max(0, len(rewritten) - end)):
                self._content.append(rewritten if self._has_begun else memoryview(rewritten)[2:])
                self._has_begun = True

    def content(self) -> bytes:
        """Return the whole message, after its last chunk was added, and forget it."""
        return self._content.take()

    def release(self) -> None:
        """Give back the bytes that are reserved for the message."""
        self._reservation.release()

    def _reserve(self, size: int) -> bool:
        """Reserve so many bytes more and return True, or refuse the message."""
        if not self._reservation.add(size):
            self._refuse(smtp_replies.TOO_MANY_BYTES_IN_FLIGHT)
            return False
        return True

    def _refuse(self, problem: SmtpReply) -> None:
        _log.warning("a message was refused: %s", problem)
        self.problem = problem
        self.release()
        self._content = ContentBuffer()


def _unfinished_length(data: bytes) -> int:
    """Return how many bytes at the end may begin a CRLF, or a CRLF with a dot; they wait for the next chunk."""
    return 2 if data.endswith(b"\r\n") else 1 if data.endswith(b"\r") else 0
