"""The content of DATA: from what is on the wire to the message, bounded and rewritten while it comes.

Rules: dots are unstuffed, a lone CR or LF becomes CRLF, the final dot is left out; wherever the bytes are cut, the
message is the same. Each chunk is rewritten when it is here: what is left at the end of 20 MB is to put the pieces
together, 13 ms that others wait, of 50.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from nbstream.listeners.smtp import replies
from nbstream.mail.lines import normalize_line_ends
from nbstream.wire.smtp import remove_dot_stuffing

if TYPE_CHECKING:
    from nbstream.listeners.byte_budget import ByteBudget
    from nbstream.wire.smtp_reply import SmtpReply

_log = logging.getLogger(__name__)

DATA_END = b"\r\n.\r\n"
"""What ends DATA, and nothing else does (RFC 5321 4.1.1.4)."""

_LAST_LINE = b".\r\n"

_READ_LIMIT_FACTOR = 2  # times the permitted size: a refused message is read to its end no further


class IncomingMessage:
    """One message that comes in, of at most ``limit`` bytes; ``problem`` is the reply once it is refused."""

    def __init__(self, limit: int, budget: ByteBudget) -> None:
        self.problem: SmtpReply | None = None
        self._limit = limit
        self._budget = budget
        self._size = self._reserved = 0
        self._pieces: list[bytes] = []
        self._unfinished_bytes = b""

    @property
    def exceeds_read_limit(self) -> bool:
        """Whether so much has come that no end is waited for."""
        return self._size > _READ_LIMIT_FACTOR * self._limit

    def add(self, chunk: bytes, *, last: bool) -> None:
        """The next bytes: the first begin with the CRLF before the message, the ``last`` end with ``DATA_END``."""
        self._size += len(chunk)
        if self.problem:
            return
        if self._size - len(DATA_END) > self._limit:
            self._refuse(replies.MESSAGE_TOO_BIG)
        elif not self._budget.reserve(len(chunk)):
            self._refuse(replies.TOO_MANY_BYTES_IN_FLIGHT)
        else:
            self._reserved += len(chunk)
            data = self._unfinished_bytes + chunk
            end = len(data) - (len(_LAST_LINE) if last else _unfinished_length(data))
            self._unfinished_bytes = data[end:]
            if end:
                self._pieces.append(normalize_line_ends(remove_dot_stuffing(data[:end])))

    def content(self) -> bytes:
        """The whole message, whose last chunk has been added; it is kept no longer."""
        self._pieces[0] = self._pieces[0][2:]  # and not of the whole: that is one more copy
        content = b"".join(self._pieces)
        self._pieces.clear()
        return content

    def release(self) -> None:
        """Give the bytes back that are reserved for it."""
        self._budget.release(self._reserved)
        self._reserved = 0

    def _refuse(self, problem: SmtpReply) -> None:
        _log.warning("smtp: a message was refused: %s", problem)
        self.problem = problem
        self.release()
        self._pieces.clear()


def _unfinished_length(data: bytes) -> int:
    """How many bytes at the end may be the beginning of a CRLF, or of a CRLF and a dot: they wait for the next."""
    return 2 if data.endswith(b"\r\n") else 1 if data.endswith(b"\r") else 0
