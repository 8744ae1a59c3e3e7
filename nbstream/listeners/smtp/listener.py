"""The SMTP door: accepts connections on the running loop, bounds what they use together, and drains them."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from nbstream.listeners.byte_budget import ByteBudget
from nbstream.listeners.smtp import replies
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.listeners.sockets import BACKLOG
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    import socket

    from nbstream.listeners.smtp.delivery import Delivery
    from nbstream.listeners.smtp.feedback import FeedbackMailbox
    from nbstream.relay.next_hop import NextHop

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SmtpLimits:
    """Limits of the door; bytes in flight are counted over all connections."""

    hostname: str
    max_message_bytes: int = 50 * 1024 * 1024
    idle_timeout_seconds: float = 300
    max_connections: int = 200
    max_bytes_in_flight: int = 256 * 1024 * 1024
    max_recipients: int = 1000


@dataclass(frozen=True, slots=True)
class MessageHandlers:
    """What becomes of mail: a transaction goes by one set of rules from MAIL to its end."""

    delivery: Delivery
    feedback: FeedbackMailbox


class SmtpListener:
    """Accepts connections, and bounds what they use together.

    ``message_handlers`` may be replaced at any time: the next transaction goes by the new ones, on open
    connections too.
    """

    name = "smtp"

    def __init__(
        self, params: SmtpLimits, next_hop: NextHop, delivery: Delivery, feedback: FeedbackMailbox
    ) -> None:
        self.limits = params
        self.next_hop = next_hop
        self.message_handlers = MessageHandlers(delivery, feedback)
        self.sessions: set[SmtpSession] = set()
        self.draining = False
        self.byte_budget = ByteBudget(params.max_bytes_in_flight)
        self._servers: list[asyncio.Server] = []
        self._no_sessions = asyncio.Event()

    async def start(self, *listening: socket.socket) -> None:
        """Serve on these sockets."""
        loop = asyncio.get_running_loop()
        for each in listening:
            self._servers.append(await loop.create_server(self._accept, sock=each, backlog=BACKLOG))

    def _accept(self) -> asyncio.BaseProtocol:
        room = not self.draining and len(self.sessions) < self.limits.max_connections
        self.message_handlers.delivery.connected(self.name, room)
        if not room:
            return _RefusingProtocol(replies.CLOSING if self.draining else replies.TOO_MANY_CONNECTIONS)
        return SmtpSession(self)

    def session_closed(self, session: SmtpSession) -> None:
        """A session's connection is gone."""
        self.sessions.discard(session)
        if not self.sessions:
            self._no_sessions.set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let mail in flight finish within ``seconds``, then close what is left."""
        self.draining = True
        for server in self._servers:
            server.close()
        for session in list(self.sessions):
            session.close_if_idle()
        if self.sessions:
            self._no_sessions.clear()
            try:
                async with asyncio.timeout(seconds):
                    await self._no_sessions.wait()
            except TimeoutError:
                _log.warning("smtp: mail in flight did not finish in %g s", seconds)
        for session in list(self.sessions):
            session.abort()


class _RefusingProtocol(asyncio.Protocol):
    """Answers a connection with one reply and closes it."""

    def __init__(self, reply: SmtpReply) -> None:
        self._reply = reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writable = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance
        writable.write(self._reply.render() + b"\r\n")
        writable.close()
