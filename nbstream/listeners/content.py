"""The content of DATA: from what is on the wire to the message, bounded while it comes."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from nbstream.listeners import replies
from nbstream.mail.headers import canonical
from nbstream.mail.lines import pieces
from nbstream.wire.smtp import unstuff

if TYPE_CHECKING:
    from nbstream.errors import Reply

_log = logging.getLogger(__name__)

END = b"\r\n.\r\n"
"""What ends DATA, and nothing else does (RFC 5321 4.1.1.4)."""

_PATIENCE = 2  # times the permitted size: a refused message is read to its end no further


class Budget(Protocol):
    """Bytes in memory, over all connections."""

    def reserve(self, count: int) -> bool:
        """Take ``count`` bytes; False where they are not left."""

    def release(self, count: int) -> None:
        """Give reserved bytes back."""


class Arriving:
    """One message that comes in, of at most ``limit`` bytes; ``problem`` is the reply once it is refused."""

    def __init__(self, limit: int, budget: Budget) -> None:
        self.problem: Reply | None = None
        self._limit = limit
        self._budget = budget
        self._size = self._reserved = 0
        self._chunks: list[bytes] = []

    @property
    def hopeless(self) -> bool:
        """Whether so much has come that no end is waited for."""
        return self._size > _PATIENCE * self._limit

    def add(self, chunk: bytes) -> None:
        """The next bytes, of which the first begin with the CRLF before the message; nothing more if refused."""
        self._size += len(chunk)
        if self.problem:
            return
        if self._size - len(END) > self._limit:
            self._refuse(replies.TOO_BIG)
        elif not self._budget.reserve(len(chunk)):
            self._refuse(replies.NO_MEMORY)
        else:
            self._reserved += len(chunk)
            self._chunks.append(chunk)

    async def content(self) -> bytes:
        """The whole message; others run meanwhile."""
        return await _message(self._chunks)

    def release(self) -> None:
        """Give the bytes back that are reserved for it."""
        self._budget.release(self._reserved)
        self._reserved = 0

    def _refuse(self, problem: Reply) -> None:
        _log.warning("smtp: a message was refused: %s", problem)
        self.problem = problem
        self.release()
        self._chunks.clear()


async def _message(chunks: list[bytes]) -> bytes:
    """The message that DATA carried: dots unstuffed, lone CR and LF made CRLF, the final dot left out.

    ``chunks`` begin with the CRLF before the message, and are emptied; others run between two pieces.
    """
    stuffed = b"".join(chunks)[: -len(END) + 2]
    chunks.clear()
    rewritten: list[bytes] = []
    after_crlf = False
    for piece in pieces(stuffed):
        unstuffed = unstuff(piece[1:] if after_crlf and piece.startswith(b".") else piece)
        rewritten.append(canonical(unstuffed))
        after_crlf = piece.endswith(b"\r\n")
        if len(rewritten) > 1:
            await asyncio.sleep(0)
    return b"".join(rewritten)[2:]
