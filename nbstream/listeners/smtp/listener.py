"""The SMTP or LMTP listener: it accepts connections, bounds what they use together, and drains them."""

from __future__ import annotations

import asyncio
import logging
import socket
from functools import partial
from typing import TYPE_CHECKING, cast

from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.listener_state import MessageHandlers, SmtpListenerState, SmtpOptions
from nbstream.listeners.smtp.lmtp_session import LmtpSession
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.listeners.smtp.settings import TlsMode
from nbstream.server import smtp_replies
from nbstream.server.feedback_mailbox import FeedbackMailbox
from nbstream.server.sockets import BACKLOG
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from nbstream.delivery.outlet import Outlet
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime

_log = logging.getLogger(__name__)


class SmtpListener:
    """Accepts connections, and bounds what they use together."""

    def __init__(
        self,
        limits: ListenerLimits,
        options: SmtpOptions,
        bytes_in_flight: BytesInFlight,
        outlet: Outlet,
        runtime: Runtime,
        metrics: DeliveryMetrics,
    ) -> None:
        self._options = options
        self._outlet = outlet
        self._metrics = metrics
        self.state = SmtpListenerState(
            limits,
            options,
            bytes_in_flight,
            outlet.next_hop,
            self._message_handlers(runtime),
            partial(metrics.disconnected, options.listener_name),
        )
        self._servers: list[asyncio.Server] = []

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            is_unix_socket = listening.family == socket.AF_UNIX
            create = loop.create_unix_server if is_unix_socket else loop.create_server
            accept = partial(self._accept, is_unix_socket=is_unix_socket)
            self._servers.append(await create(accept, sock=listening, backlog=BACKLOG))

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next transaction on, on open connections too."""
        self.state.message_handlers = self._message_handlers(runtime)

    def _message_handlers(self, runtime: Runtime) -> MessageHandlers:
        return MessageHandlers(
            Delivery(runtime, self._outlet, self._metrics, replies_to_each=self._options.is_lmtp),
            FeedbackMailbox(runtime, self._metrics.filter_metrics),
            runtime.teachers_through(self._options.listener_name),
            runtime.tls_contexts.get(self._options.listener_name),
        )

    def _accept(self, *, is_unix_socket: bool) -> asyncio.BaseProtocol:
        state = self.state
        has_room = not state.draining and len(state.sessions) < state.limits.max_connections
        self._metrics.connected(self._options.listener_name, has_room)
        if not has_room:
            reply = smtp_replies.CLOSING if state.draining else smtp_replies.TOO_MANY_CONNECTIONS
            return _RefusingProtocol(None if self._options.tls is TlsMode.IMPLICIT else reply)
        session = LmtpSession if self._options.is_lmtp else SmtpSession
        return session(state, is_unix_socket=is_unix_socket)

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
                _log.warning("%s: mail in flight did not finish in %g s", self._options.listener_name, seconds)
        for session in list(self.state.sessions):
            session.abort()


class _RefusingProtocol(asyncio.Protocol):
    """Answers a connection with one reply and closes it; None is no reply, for a client that begins with TLS."""

    def __init__(self, reply: SmtpReply | None) -> None:
        self._reply = reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        writable = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance
        if self._reply is not None:
            writable.write(self._reply.render() + b"\r\n")
        writable.close()
