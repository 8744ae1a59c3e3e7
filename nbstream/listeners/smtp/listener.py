"""The SMTP or LMTP listener: what its connections share, and what becomes of mail."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.listeners.smtp.delivery import Delivery
from nbstream.listeners.smtp.session import LmtpSession, MessageHandlers, SmtpListenerState, SmtpSession
from nbstream.listeners.smtp.settings import LmtpListenerSettings, TlsMode
from nbstream.server import smtp_replies
from nbstream.server.connections import Connections, RefusingProtocol
from nbstream.server.feedback_mailbox import FeedbackMailbox

if TYPE_CHECKING:
    import asyncio
    import socket

    from nbstream.delivery.outlet import Outlet
    from nbstream.listeners.smtp.settings import MailListenerSettings
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime


class SmtpListener:
    """Takes mail."""

    def __init__(  # noqa: PLR0913 - what a listener is made of, with where mail goes
        self,
        section: MailListenerSettings,
        *,
        name: str,
        hostname: str,
        limits: ListenerLimits,
        bytes_in_flight: BytesInFlight,
        outlet: Outlet,
        runtime: Runtime,
        metrics: DeliveryMetrics,
        max_recipients: int = 1000,
    ) -> None:
        self._outlet = outlet
        self._metrics = metrics
        self._name = name
        self._is_lmtp = isinstance(section, LmtpListenerSettings)
        self.connections = Connections(name, limits.max_connections, metrics)
        self.state = SmtpListenerState(
            name=name,
            hostname=hostname,
            section=section,
            connections=self.connections,
            limits=limits,
            bytes_in_flight=bytes_in_flight,
            next_hop=outlet.next_hop,
            message_handlers=self._message_handlers(runtime),
            max_recipients=max_recipients,
        )

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets."""
        await self.connections.listen(sockets, self._accept)

    def apply(self, runtime: Runtime) -> None:
        """Go by ``runtime`` from the next transaction on, on open connections too."""
        self.state.message_handlers = self._message_handlers(runtime)

    def _message_handlers(self, runtime: Runtime) -> MessageHandlers:
        return MessageHandlers(
            Delivery(runtime, self._outlet, self._metrics, replies_to_each=self._is_lmtp),
            FeedbackMailbox(runtime, self._metrics.filter_metrics),
            runtime.teachers_through(self._name),
            runtime.tls_contexts.get(self._name),
        )

    def _accept(self) -> asyncio.BaseProtocol:
        if self.connections.admit():
            return LmtpSession(self.state) if self._is_lmtp else SmtpSession(self.state)
        reply = smtp_replies.CLOSING if self.connections.draining else smtp_replies.TOO_MANY_CONNECTIONS
        begins_with_tls = self.state.section.tls is TlsMode.IMPLICIT  # plain text would only be taken for a fault
        return RefusingProtocol(b"" if begins_with_tls else reply.render() + b"\r\n")

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let mail in flight finish within ``seconds``, then close what is left."""
        await self.connections.drain(seconds)
