"""The connections of a listener: they are accepted, counted, refused beyond their number, and drained.

Rules: a client for which there is no room is told so where its protocol has a word for it, and is disconnected. A
drain accepts no more, closes what is idle, lets work under way finish for a while, and drops the rest.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, Protocol, cast

from nbstream.server.sockets import BACKLOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from nbstream.server.metrics import DeliveryMetrics


# Who is at the other end of a connection, and whose feedback is believed: one rule for all protocols.

_UNPRINTABLE = re.compile(r"[^!-~]")
_MAX_USER_LENGTH = 100

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class Peer(NamedTuple):
    """A peer by its IP address; a text that is no address stands for one that is not known.

    ``address`` is None for a peer without one: it came over a unix socket or a stream, and the permissions of
    these have let it in.
    """

    address: str | None = None

    @property
    def is_on_this_machine(self) -> bool:
        """Whether the peer runs on this machine."""
        if self.address is None:
            return True
        address = _parse_address(self.address)
        return address is not None and address.is_loopback

    def is_in_networks(self, networks: Iterable[Network]) -> bool:
        """Return whether the address of the peer is in one of the networks; a peer without one is in none."""
        address = None if self.address is None else _parse_address(self.address)
        return address is not None and any(address in network for network in networks)

    def __str__(self) -> str:
        return "local" if self.address is None else self.address


@lru_cache(maxsize=256)  # each message of a connection needs it
def _parse_address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a peer's address, IPv4 also where it was written as IPv6; None for what is no address."""
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


class Teachers(NamedTuple):
    """The peers that may teach: those in one of ``networks``, and those without an address.

    Whoever may open a unix socket, or may write to a stream in Redis, was let in by its permissions. With
    ``checks_forwarded`` a client that a mail server names has to be in the networks too.
    """

    networks: Sequence[Network] = ()
    checks_forwarded: bool = False

    def may_teach(self, peer: Peer) -> bool:
        """Return whether the feedback of the peer is believed."""
        return peer.address is None or peer.is_in_networks(self.networks)

    def may_teach_for(self, peer: Peer, client: Peer | None) -> bool:
        """Return whether the feedback of the peer is believed, which it passes on for ``client``.

        None is no client: the peer speaks for itself. A client of unknown address has no right.
        """
        if not self.may_teach(peer):
            return False
        return client is None or not self.checks_forwarded or client.is_in_networks(self.networks)


def printable_user(raw: bytes) -> str:
    """Return the user whom a client names, in printable ASCII with ``?`` for all else, at most 100 characters."""
    return _UNPRINTABLE.sub("?", raw.decode("utf-8", "replace"))[:_MAX_USER_LENGTH]


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
            _log.warning("%s: work was still running after %g s", self._name, seconds)
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
