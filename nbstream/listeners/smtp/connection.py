"""One SMTP connection below its commands: aiosmtpd's protocol, with deadlines, replies and an end that hold.

Rules: one timer serves all deadlines of a connection. Replies to commands that came together go together. Who
reads nothing is dropped, not waited for.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import time
from typing import TYPE_CHECKING, AnyStr

from nbstream.listeners.peers import Peer
from nbstream.listeners.smtp import replies
from nbstream.listeners.smtp.aiosmtpd_seam import AiosmtpdConnection

if TYPE_CHECKING:
    from nbstream.wire.smtp_reply import SmtpReply

_log = logging.getLogger(__name__)

_CHUNK_BYTES = 64 * 1024
_COMMAND_BYTES = 4096  # RFC 5321's 512, and room for the parameters of DSN (ORCPT: 500) and AUTH (500)
_GROUPED_REPLY_BYTES = 4096  # of replies, which the client is to take before more is done for it
_TOGETHER_SECONDS = 1.0  # a hop may take its time for each of 100 recipients, and the client not wait for all


class SmtpConnection(AiosmtpdConnection):
    """One connection: who is at its other end, how long it may be silent, what is said to it and how it ends."""

    line_length_limit = (
        _CHUNK_BYTES  # aiosmtpd makes it the reader's limit, which is how much DATA is read at a time
    )

    def __init__(self, hostname: str, max_message_bytes: int, idle_timeout_seconds: float) -> None:
        super().__init__(
            handler=None,
            hostname=hostname,
            ident="ESMTP nbstream",
            enable_SMTPUTF8=True,
            data_size_limit=max_message_bytes,
            timeout=idle_timeout_seconds,
            loop=asyncio.get_running_loop(),
        )
        # aiosmtpd shares this one between all connections and lets EHLO make it grow.
        self.command_size_limit = _COMMAND_BYTES
        self.command_size_limits = collections.defaultdict(lambda: _COMMAND_BYTES)
        self._unsent_replies, self._last_reply_at = b"", 0.0
        self._peer = Peer("")

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Note who it is."""
        name = transport.get_extra_info("peername")
        self._peer = Peer(str(name[0]) if isinstance(name, tuple) else "")
        super().connection_made(transport)

    def idle_timeout_passed(self) -> None:
        """Drop a client that was silent for too long; one that reads nothing would keep a closed connection."""
        _log.info("smtp: a client was silent for too long")
        self.abort()

    async def push(self, status: AnyStr) -> None:
        """Say a reply; a connection that is gone is a ConnectionError (uvloop would raise a RuntimeError)."""
        if self.transport is None or self.transport.is_closing():
            raise ConnectionResetError
        said = status if isinstance(status, bytes) else status.encode()
        held, self._unsent_replies = self._unsent_replies, b""
        self._last_reply_at = time.monotonic()
        await super().push(held + said)

    def _close_for_shutdown(self) -> None:
        if self.transport is not None and not self.transport.is_closing():
            self.write(self._unsent_replies + replies.CLOSING.render() + b"\r\n")
            self.transport.close()

    async def _send_reply(self, reply: SmtpReply, *, grouped: bool = False) -> None:
        """Say it. One of a group goes with the reply to the next command where that is here (RFC 2920 3.2).

        Nothing is kept back once nothing was said for ``_TOGETHER_SECONDS``.
        """
        more = grouped and self.has_line()
        recent = time.monotonic() - self._last_reply_at < _TOGETHER_SECONDS
        if more and recent and len(self._unsent_replies) < _GROUPED_REPLY_BYTES:
            self._unsent_replies += reply.render() + b"\r\n"
        else:
            await self.push(reply.render())
