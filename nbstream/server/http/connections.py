"""Connections of the HTTP listener: their number, their time without a request, and their end."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.server.api_json import HttpProblem
from nbstream.server.connections import RefusingProtocol
from nbstream.server.http.responses import refusal_response

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Iterable

    from nbstream.server.connections import Connections
    from nbstream.server.http.access import HeaderFields

_log = logging.getLogger(__name__)

SERVER_NAME = "nbstream"
"""The value of the field Server in answers, which names no version."""

_FIELDS_OF_ALL = {"Server": SERVER_NAME, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}


def complete_fields(answer: web.StreamResponse) -> web.StreamResponse:
    """Add the fields of every answer: no browser guesses what it is, and nothing on the way stores it.

    An answer that may be stored, such as a static file of the page, says so itself.
    """
    for name, value in _FIELDS_OF_ALL.items():
        answer.headers.setdefault(name, value)
    return answer


# A browser sends the cookies of all servers on a host, which may be many on localhost.
_NO_REQUEST = "this is no HTTP request, or a line of its header, such as its cookies, is longer than 8190 bytes"
_LINGER_SECONDS = 2.0  # a refused client may still send for this time: it reads the answer only afterwards
_CLOSE_SECONDS = 1.0
_READ_BYTES = 16 << 10
_TOO_MANY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b'Retry-After: 5\r\nConnection: close\r\n\r\n{"error": "too many connections now, please try again later"}'
)


class ActiveRequests:
    """The connections whose request is being answered; ``idle`` is set while there is none.

    While ``draining`` is set, each connection is closed after its answer.
    """

    def __init__(self) -> None:
        self.draining = False
        self._connections: set[HttpConnection] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    def __contains__(self, connection: object) -> bool:
        return connection in self._connections

    def add(self, connection: HttpConnection) -> None:
        """Note that a request of the connection is being answered."""
        self._connections.add(connection)
        self.idle.clear()

    def discard(self, connection: HttpConnection) -> None:
        """Note that no request of the connection is being answered, or no longer."""
        self._connections.discard(connection)
        if not self._connections:
            self.idle.set()


class HttpConnection(web.RequestHandler):
    """One connection, which is closed if no whole request header arrives in time, even if single bytes do.

    ``trusted_origin`` are the ``origin_fields`` with which its peer needs no password, once that is known.
    """

    trusted_origin: HeaderFields | None = None

    def __init__(
        self,
        server: web.Server,
        seconds: float,
        active_requests: ActiveRequests,
        connections: Connections,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to turn it off
            keepalive_timeout=seconds,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._idle_seconds = seconds
        self._active_requests = active_requests
        self._connections = connections
        self._deadline = math.inf  # of the next request, on the clock of the loop
        self._deadline_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._connections.opened(self)
        self.request_ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer; a request that is being answered continues to its end."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._connections.closed(self)
        super().connection_lost(exc)

    def request_began(self) -> None:
        """Note that the header of a request has arrived: the body has a deadline of its own."""
        self._active_requests.add(self)
        self._deadline = math.inf

    def close_if_idle(self) -> None:
        """Close the connection, for the daemon drains, unless a request is being answered."""
        if self not in self._active_requests:
            self.force_close()

    def abort(self) -> None:
        """Drop the connection."""
        if self.transport is not None:
            self.transport.abort()

    def request_ended(self) -> None:
        """Note that the answer is ready: the client has the idle time to read it and to send the next request."""
        self._active_requests.discard(self)
        if self._active_requests.draining:
            self.close()  # not earlier: aiohttp would drop the rest of the body
        if self.transport is not None:
            self._deadline = asyncio.get_running_loop().time() + self._idle_seconds
            if self._deadline_timer is None:
                self._set_deadline_timer(self._idle_seconds)

    def _set_deadline_timer(self, seconds: float) -> None:
        self._deadline_timer = asyncio.get_running_loop().call_later(seconds, self._on_deadline_timer)

    def _on_deadline_timer(self) -> None:
        """Drop the connection whose deadline has passed; one timer serves the deadlines of all its requests."""
        self._deadline_timer = None
        left = self._deadline - asyncio.get_running_loop().time()
        if left <= 0:
            _log.debug("http: no request arrived in time")
            self.abort()
        elif left < math.inf:
            self._set_deadline_timer(left)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that are no HTTP; aiohttp's own names itself, and logs a traceback."""
        if request.writer.output_size > 0:
            raise ConnectionError("a response has already begun")
        if status >= 500:
            _log.error("http: a request failed", exc_info=exc)
        answer = refusal_response(
            "", HttpProblem(status, _NO_REQUEST if status == 400 else "it failed"), close=True
        )
        return complete_fields(answer)


class _SmallReads(asyncio.BufferedProtocol):
    """Hands ``connection`` at most ``_READ_BYTES`` of what came, and then lets the other connections have a turn.

    A body of one-byte chunks costs aiohttp 4 µs a chunk, and event loops read up to 256 kB at a time.
    """

    def __init__(self, connection: HttpConnection, buffer: bytearray) -> None:
        self._connection = connection
        self._buffer = buffer
        self.connection_made = connection.connection_made  # type: ignore[method-assign]
        self.connection_lost = connection.connection_lost  # type: ignore[method-assign]
        self.eof_received = connection.eof_received  # type: ignore[method-assign]
        self.pause_writing = connection.pause_writing  # type: ignore[method-assign]
        self.resume_writing = connection.resume_writing  # type: ignore[method-assign]

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return the buffer that is read into; what was read is taken from it before anything else is read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Hand over what was read."""
        self._connection.data_received(bytes(memoryview(self._buffer)[:nbytes]))


class HttpConnections:
    """Answers requests with ``serve`` on a listening socket, on the connections of the listener.

    The protocol is that of aiohttp, with an end of its own: a drain waits for answers, and not for connections.
    """

    def __init__(
        self,
        serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        seconds: float,
        connections: Connections,
    ) -> None:
        self._serve = serve
        self._idle_seconds = seconds
        self._connections = connections
        self._active_requests = ActiveRequests()
        self._buffer = bytearray(_READ_BYTES)
        self._server: web.Server | None = None

    async def start(self, sockets: Iterable[socket.socket]) -> None:
        """Serve on these sockets."""
        self._server = web.Server(self._serve)
        await self._connections.listen(sockets, self._accept)

    def _accept(self) -> asyncio.BaseProtocol:
        if not self._connections.admit():
            return RefusingProtocol(_TOO_MANY_RESPONSE)
        assert self._server is not None
        connection = HttpConnection(self._server, self._idle_seconds, self._active_requests, self._connections)
        return _SmallReads(connection, self._buffer)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return not self._active_requests.idle.is_set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let active requests finish within ``seconds``, then close all connections."""
        self._active_requests.draining = True
        self._connections.stop()
        try:
            async with asyncio.timeout(seconds):
                await self._active_requests.idle.wait()
        except TimeoutError:
            _log.warning("http: requests were still running after %g s", seconds)
        if self._server is not None:
            await self._server.shutdown(_CLOSE_SECONDS)
