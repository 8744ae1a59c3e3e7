"""The SMTP or LMTP listener: what its connections share, and what becomes of mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.listener_state import MessageHandlers, SmtpListenerState, SmtpOptions
from nbstream.listeners.smtp.lmtp_session import LmtpSession
from nbstream.listeners.smtp.session import SmtpSession
from nbstream.listeners.smtp.settings import TlsMode
from nbstream.server import smtp_replies
from nbstream.server.connections import Connections, RefusingProtocol
from nbstream.server.feedback_mailbox import FeedbackMailbox

if TYPE_CHECKING:
    import asyncio
    import socket

    from nbstream.delivery.outlet import Outlet
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime


class SmtpListener:
    """Takes mail."""

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
        self.connections = Connections(options.listener_name, limits.max_connections, metrics)
        self.state = SmtpListenerState(
            self.connections, limits, options, bytes_in_flight, outlet.next_hop, self._message_handlers(runtime)
        )

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        await self.connections.listen(sockets, self._accept)

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

    def _accept(self) -> asyncio.BaseProtocol:
        if self.connections.admit():
            return LmtpSession(self.state) if self._options.is_lmtp else SmtpSession(self.state)
        reply = smtp_replies.CLOSING if self.connections.draining else smtp_replies.TOO_MANY_CONNECTIONS
        begins_with_tls = self._options.tls is TlsMode.IMPLICIT  # plain text would only be taken for a fault
        return RefusingProtocol(b"" if begins_with_tls else reply.render() + b"\r\n")

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let mail in flight finish within ``seconds``, then close what is left."""
        await self.connections.drain(seconds)
