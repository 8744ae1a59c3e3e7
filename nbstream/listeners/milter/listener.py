"""The milter listener: accepts connections of mail servers, bounds what they use together, and drains them."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING

from nbstream.listeners.milter.answers import MilterAnswers
from nbstream.listeners.milter.session import PROGRESS_SECONDS, MilterListenerState, MilterSession
from nbstream.server.sockets import BACKLOG

if TYPE_CHECKING:
    from nbstream.server.limits import BytesInFlight, ListenerLimits
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime
_log = logging.getLogger(__name__)

_READ_LIMIT = 64 * 1024


class MilterListener:
    """Accepts connections, and bounds what they use together."""

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
        answers = MilterAnswers(name, runtime, metrics)
        self.state = MilterListenerState(limits, bytes_in_flight, answers, progress_seconds)
        self.sessions: dict[MilterSession, asyncio.Task[None]] = {}
        self._metrics = metrics
        self._server: asyncio.Server | None = None

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on the socket, which has to be exactly one."""
        (listening,) = sockets
        self.state.is_unix_socket = listening.family == socket.AF_UNIX
        start = asyncio.start_unix_server if self.state.is_unix_socket else asyncio.start_server
        self._server = await start(self._accept, sock=listening, backlog=BACKLOG, limit=_READ_LIMIT)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` for the next message that is complete, on open connections too."""
        self.state.answers = MilterAnswers(self._name, runtime, self._metrics)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        has_room = not self.state.draining and len(self.sessions) < self.state.limits.max_connections
        self._metrics.connected(self._name, has_room)
        if not has_room:
            # The protocol has no word for it before the negotiation: the mail server does by its default action.
            writer.close()
            return
        session = MilterSession(self.state, reader, writer)
        task = asyncio.get_running_loop().create_task(session.run())
        self.sessions[session] = task
        task.add_done_callback(lambda _: self._closed(session))

    def _closed(self, session: MilterSession) -> None:
        self.sessions.pop(session)
        self._metrics.disconnected(self._name)

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let messages under way finish within ``seconds``, then close what is left."""
        self.state.draining = True
        if self._server is not None:
            self._server.close()
        for session in list(self.sessions):
            session.close_if_idle()
        tasks = list(self.sessions.values())
        if not tasks:
            return
        _, unfinished = await asyncio.wait(tasks, timeout=seconds)
        if unfinished:
            _log.warning("milter: messages under way did not finish in %g s", seconds)
        for session, task in list(self.sessions.items()):
            session.abort()
            task.cancel()
        await asyncio.wait(tasks)
