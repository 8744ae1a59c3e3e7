"""Connections of the HTTP listener: their number, their time without a request, and their end."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from nbstream.listeners.http.responses import refusal_response
from nbstream.server.sockets import BACKLOG
from nbstream.wire.api_json import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from nbstream.listeners.http.access import HeaderFields

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
    ``lost`` is set when the connection is closed from either side.
    """

    trusted_origin: HeaderFields | None = None

    def __init__(
        self,
        server: web.Server,
        seconds: float,
        active_requests: ActiveRequests,
        on_disconnected: Callable[[], object],
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
        self._on_disconnected = on_disconnected
        self._deadline_timer: asyncio.TimerHandle | None = None
        self._is_stream = False
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self.request_ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer; a request that is being answered continues to its end."""
        self._cancel_deadline()
        self._on_disconnected()
        super().connection_lost(exc)

    def request_began(self) -> None:
        """Note that the header of a request has arrived: the body has a deadline of its own."""
        self._active_requests.add(self)
        self._cancel_deadline()

    def stream_began(self) -> None:
        """Note that the answer has no end of its own: a drain does not wait for it, and closes the connection."""
        self._is_stream = True
        self._active_requests.discard(self)

    def force_close(self) -> None:
        """Close at once, or note that it is closed; what a stream has not sent by then is dropped."""
        self.lost.set()
        if self._is_stream and self.transport is not None:
            self.transport.abort()
        super().force_close()

    def request_ended(self) -> None:
        """Note that the answer is ready: the client has the idle time to read it and to send the next request."""
        self._active_requests.discard(self)
        if self._active_requests.draining:
            self.close()  # not earlier: aiohttp would drop the rest of the body
        if self.transport is not None:
            self._cancel_deadline()
            self._deadline_timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._abort_idle)

    def _cancel_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None

    def _abort_idle(self) -> None:
        _log.debug("http: no request came in time")
        if self.transport is not None:
            self.transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Return the answer to bytes that are no HTTP; aiohttp's own names itself, and logs a traceback."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
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
    """Answers requests with ``serve`` on a listening socket, on a bounded number of connections.

    ``on_connected`` is called for each client, with True where there was room for it, and ``on_disconnected``
    where there was, when it is gone.
    """

    def __init__(
        self,
        serve: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        limit: int,
        seconds: float,
        on_connected: Callable[[bool], object],
        on_disconnected: Callable[[], object],
    ) -> None:
        self._serve = serve
        self._limit = limit
        self._idle_seconds = seconds
        self._on_connected = on_connected
        self._on_disconnected = on_disconnected
        self._active_requests = ActiveRequests()
        self._buffer = bytearray(_READ_BYTES)
        self._listening: asyncio.Server | None = None
        self._server: web.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""
        self._server = web.Server(self._serve)
        loop = asyncio.get_running_loop()
        options: Mapping[str, Any] = {"sock": listening, "backlog": BACKLOG}
        if listening.family == socket.AF_UNIX:
            self._listening = await loop.create_unix_server(self._accept, **options)
        else:
            self._listening = await loop.create_server(self._accept, **options)

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._server
        has_room = server is not None and len(server.connections) < self._limit
        self._on_connected(has_room)
        if server is None or not has_room:
            return _RefusingProtocol()
        connection = HttpConnection(server, self._idle_seconds, self._active_requests, self._on_disconnected)
        return _SmallReads(connection, self._buffer)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return not self._active_requests.idle.is_set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let active requests finish within ``seconds``, then close all connections."""
        if self._listening is not None:
            self._listening.close()
        server = self._server
        if server is not None:
            self._active_requests.draining = True
            for connection in server.connections:
                if connection not in self._active_requests:
                    connection.force_close()
            try:
                async with asyncio.timeout(seconds):
                    await self._active_requests.idle.wait()
            except TimeoutError:
                _log.warning("http: requests in flight did not finish in %g s", seconds)
            await server.shutdown(_CLOSE_SECONDS)


class _RefusingProtocol(asyncio.Protocol):
    """Answers a connection with one refusal and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Write the refusal and close."""
        writable = cast("asyncio.Transport", transport)  # uvloop's transport is not one by its type
        writable.write(_TOO_MANY_RESPONSE)
        writable.close()
