"""The milter listener: what the connections of mail servers share."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from nbstream.listeners.milter.answers import MilterAnswers
from nbstream.listeners.milter.session import PROGRESS_SECONDS, MilterListenerState, MilterSession
from nbstream.server.connections import Connections

if TYPE_CHECKING:
    import socket

    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime
_READ_LIMIT = 64 * 1024


class MilterListener:
    """Answers mail servers about their messages."""

    def __init__(
        self,
        name: str,
        limits: ListenerLimits,
        bytes_in_flight: BytesInFlight,
        runtime: Runtime,
        metrics: DeliveryMetrics,
        progress_seconds: float = PROGRESS_SECONDS,
    ) -> None:
        self._name = name
        self._metrics = metrics
        self.connections = Connections(name, limits.max_connections, metrics)
        answers = MilterAnswers(name, runtime, metrics)
        self.state = MilterListenerState(self.connections, limits, bytes_in_flight, answers, progress_seconds)

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets.

        A client for which there is no room gets no answer: the protocol has no word for it before the negotiation,
        and the mail server does by its default action.
        """
        await self.connections.listen_with_streams(sockets, partial(MilterSession, self.state), _READ_LIMIT)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` for the next message that is complete, on open connections too."""
        self.state.answers = MilterAnswers(self._name, runtime, self._metrics)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let messages under way finish within ``seconds``, then close what is left."""
        await self.connections.drain(seconds)
