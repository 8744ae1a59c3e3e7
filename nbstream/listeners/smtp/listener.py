"""The SMTP listener: accepts connections on the running loop, bounds what they use together, and drains them."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol, cast

from nbstream.listeners import names
from nbstream.listeners.smtp import replies
from nbstream.listeners.smtp.delivery import Delivery, DeliveryObserver
from nbstream.listeners.smtp.feedback import FeedbackMailbox, FeedbackObserver
from nbstream.listeners.smtp.listener_state import MessageHandlers, SmtpLimits, SmtpListenerState, SmtpOptions
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.listeners.sockets import BACKLOG
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    import socket

    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.listeners.runtime import Runtime
    from nbstream.relay.outlet import Outlet

_log = logging.getLogger(__name__)


class SmtpObservers(Protocol):
    """The observers of what the listener does; the metrics of the daemon have them."""

    @property
    def delivery(self) -> DeliveryObserver:
        """The observer of connections and deliveries."""

    @property
    def feedback(self) -> FeedbackObserver:
        """The observer of feedback."""


class SmtpListener:
    """Accepts connections, and bounds what they use together."""

    def __init__(
        self,
        limits: SmtpLimits,
        options: SmtpOptions,
        bytes_in_flight: BytesInFlight,
        outlet: Outlet,
        runtime: Runtime,
        observers: SmtpObservers,
    ) -> None:
        self._outlet = outlet
        self._observers = observers
        self.state = SmtpListenerState(
            limits, options, bytes_in_flight, outlet.next_hop, self._message_handlers(runtime)
        )
        self._servers: list[asyncio.Server] = []

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            self._servers.append(await loop.create_server(self._accept, sock=listening, backlog=BACKLOG))

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next transaction on, on open connections too."""
        self.state.message_handlers = self._message_handlers(runtime)

    def _message_handlers(self, runtime: Runtime) -> MessageHandlers:
        return MessageHandlers(
            Delivery(runtime, self._outlet, self._observers.delivery),
            FeedbackMailbox(runtime, self._observers.feedback),
            runtime.teachers_through(names.SMTP),
        )

    def _accept(self) -> asyncio.BaseProtocol:
        state = self.state
        has_room = not state.draining and len(state.sessions) < state.limits.max_connections
        self._observers.delivery.connected(names.SMTP, has_room)
        if not has_room:
            return _RefusingProtocol(replies.CLOSING if state.draining else replies.TOO_MANY_CONNECTIONS)
        return SmtpSession(state)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let mail in flight finish within ``seconds``, then close what is left."""
        self.state.draining = True
        for server in self._servers:
            server.close()
        for session in list(self.state.sessions):
            session.close_if_idle()
        if self.state.sessions:
            try:
                async with asyncio.timeout(seconds):
                    await self.state.no_sessions.wait()
            except TimeoutError:
                _log.warning("smtp: mail in flight did not finish in %g s", seconds)
        for session in list(self.state.sessions):
            session.abort()


class _RefusingProtocol(asyncio.Protocol):
    """Answers a connection with one reply and closes it."""

    def __init__(self, reply: SmtpReply) -> None:
        self._reply = reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writable = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance
        writable.write(self._reply.render() + b"\r\n")
        writable.close()
