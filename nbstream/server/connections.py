"""The connections of a listener: they are accepted, counted, refused beyond their number, and drained.

Rules: a client for which there is no room is told so where its protocol has a word for it, and is disconnected. A
drain accepts no more, closes what is idle, lets work under way finish for a while, and drops the rest.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING, Protocol, cast

from nbstream.server.peers import Peer
from nbstream.server.sockets import BACKLOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbstream.server.metrics import DeliveryMetrics

_log = logging.getLogger(__name__)

_ABORT_SECONDS = 10.0  # what is dropped needs a moment to end
_UNKNOWN_HOST = "unknown"


class OpenConnection(Protocol):
    """A connection as the listener sees it; each protocol has its own."""

    def close_if_idle(self) -> None:
        """Close the connection now, for the daemon drains, unless work is under way on it."""

    def abort(self) -> None:
        """Drop the connection and its work."""


class StreamConnection:
    """A connection of a protocol that reads and writes streams: ``serve`` runs in a task of its own."""

    task: asyncio.Task[None]

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def serve(self) -> None:
        """Serve the client until one side ends the connection. Raises nothing but cancellation."""
        raise NotImplementedError

    def close_if_idle(self) -> None:
        """Close nothing: the connection is its one request, and ends with it."""

    def abort(self) -> None:
        """Drop the connection and its work."""
        self.writer.transport.abort()
        self.task.cancel()


class Connections:
    """The connections of the listener ``name``, at most ``limit`` of them; ``metrics`` counts them.

    Iterated over are all that are open, also those of clients that only read why they are refused.
    """

    def __init__(self, name: str, limit: int, metrics: DeliveryMetrics | None = None) -> None:
        self.draining = False
        self.is_unix_socket = False
        self._name = name
        self._limit = limit
        self._metrics = metrics
        self._servers: list[asyncio.Server] = []
        self._admitted: set[OpenConnection] = set()
        self._refused: set[OpenConnection] = set()
        self._all_closed = asyncio.Event()
        self._all_closed.set()

    def __len__(self) -> int:
        return len(self._admitted) + len(self._refused)

    def __iter__(self) -> Iterator[OpenConnection]:
        return chain(self._admitted, self._refused)

    async def listen(self, sockets: Iterable[socket.socket], make: Callable[[], asyncio.BaseProtocol]) -> None:
        """Accept clients at these sockets, with a protocol of ``make`` for each."""
        loop = asyncio.get_running_loop()
        for listening in sockets:
            self.is_unix_socket = listening.family == socket.AF_UNIX
            create = loop.create_unix_server if self.is_unix_socket else loop.create_server
            self._servers.append(await create(make, sock=listening, backlog=BACKLOG))

    async def listen_with_streams(
        self,
        sockets: Iterable[socket.socket],
        make: Callable[[asyncio.StreamReader, asyncio.StreamWriter], StreamConnection],
        read_limit: int,
        refusal: bytes = b"",
    ) -> None:
        """Accept clients at these sockets, and serve each; one for which there is no room gets ``refusal``.

        ``read_limit`` is the limit of the readers.
        """
        loop = asyncio.get_running_loop()

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if not self.admit():
                if refusal:
                    writer.write(refusal)
                writer.close()
                return
            connection = make(reader, writer)
            connection.task = loop.create_task(connection.serve())
            connection.task.add_done_callback(lambda _: self.closed(connection))
            self.opened(connection)

        def make_protocol() -> asyncio.BaseProtocol:
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(read_limit, loop), accept, loop)

        await self.listen(sockets, make_protocol)

    def admit(self) -> bool:
        """Return whether there is room for one more client, and count it as accepted or refused."""
        has_room = not self.draining and len(self._admitted) < self._limit
        if self._metrics:
            self._metrics.connected(self._name, has_room)
        return has_room

    def opened(self, connection: OpenConnection) -> None:
        """Note the connection of a client that was admitted."""
        self._admitted.add(connection)
        self._all_closed.clear()

    def refused(self, connection: OpenConnection) -> bool:
        """Note a client that only reads why it is refused; return whether it may stay for that."""
        self._refused.add(connection)
        self._all_closed.clear()
        return len(self._refused) <= self._limit

    def closed(self, connection: OpenConnection) -> None:
        """Note that a connection is closed, and its work is done; that may be said twice."""
        if connection in self._admitted:
            self._admitted.remove(connection)
            if self._metrics:
                self._metrics.disconnected(self._name)
        self._refused.discard(connection)
        if not len(self):
            self._all_closed.set()

    async def wait_closed(self) -> None:
        """Wait until no connection is open."""
        await self._all_closed.wait()

    def peer_of(self, transport: asyncio.BaseTransport) -> Peer:
        """Return who is at the other end."""
        if self.is_unix_socket:
            return Peer()
        name = transport.get_extra_info("peername")  # uvloop has no address of a client that has disconnected
        return Peer(str(name[0]) if isinstance(name, tuple) and name else _UNKNOWN_HOST)

    def stop(self) -> None:
        """Accept no more, and close what is idle."""
        self.draining = True
        for server in self._servers:
            server.close()
        for connection in list(self):
            connection.close_if_idle()

    async def drain(self, seconds: float) -> None:
        """Accept no more, let work under way finish within ``seconds``, then drop what is left."""
        self.stop()
        try:
            async with asyncio.timeout(seconds):
                await self.wait_closed()
        except TimeoutError:
            _log.warning("%s: work under way did not finish in %g s", self._name, seconds)
        await self.abort()

    async def abort(self) -> None:
        """Drop all connections."""
        for connection in list(self):
            connection.abort()
        with suppress(TimeoutError):
            async with asyncio.timeout(_ABORT_SECONDS):
                await self.wait_closed()


class RefusingProtocol(asyncio.Protocol):
    """Answers a client with one refusal, which may be empty, and closes the connection."""

    def __init__(self, refusal: bytes) -> None:
        self._refusal = refusal

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write the refusal and close."""
        writable = cast("asyncio.WriteTransport", transport)  # uvloop's is none by inheritance
        if self._refusal:
            writable.write(self._refusal)
        writable.close()
