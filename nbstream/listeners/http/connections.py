"""Connections of the HTTP door: how many there are, how long each may be without a request, and how they end."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from nbstream.listeners.http.responses import refusal_response
from nbstream.listeners.sockets import BACKLOG
from nbstream.wire.api_v1 import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

SERVER_NAME = "nbstream"
"""What answers say of their server: no versions."""

_LINGER_SECONDS = 2.0  # what a refused client still sends is read for so long, so that it sees the answer
_CLOSE_SECONDS = 1.0
_TOO_MANY_RESPONSE = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b'Retry-After: 5\r\nConnection: close\r\n\r\n{"error": "too many connections now, please try again later"}'
)


class ActiveRequests:
    """The connections whose request is being answered; ``idle`` is set while there is none.

    ``draining``: each is closed after its answer.
    """

    def __init__(self) -> None:
        self.draining = False
        self._connections: set[HttpConnection] = set()
        self.idle = asyncio.Event()
        self.idle.set()

    def __contains__(self, connection: object) -> bool:
        return connection in self._connections

    def add(self, connection: HttpConnection) -> None:
        """Its request is being answered."""
        self._connections.add(connection)
        self.idle.clear()

    def discard(self, connection: HttpConnection) -> None:
        """It is not, or no more."""
        self._connections.discard(connection)
        if not self._connections:
            self.idle.set()


class HttpConnection(web.RequestHandler):
    """One connection. Without a request in time it is closed, whether it is silent or sends one byte a minute."""

    def __init__(self, server: web.Server, seconds: float, under_way: ActiveRequests) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to have none
            keepalive_timeout=seconds,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._idle_seconds = seconds
        self._active_requests = under_way
        self._deadline_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self.request_ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client is gone; a request under way goes on to its end."""
        self._cancel_deadline()
        super().connection_lost(exc)

    def request_began(self) -> None:
        """The header of a request is here: reading its body has a deadline of its own."""
        self._active_requests.add(self)
        self._cancel_deadline()

    def request_ended(self) -> None:
        """The answer is ready: in that time the client is to take it, and to send the next request."""
        self._active_requests.discard(self)
        if self._active_requests.draining:
            self.close()  # not before: aiohttp would drop the rest of the body
        if self.transport is not None:
            self._cancel_deadline()
            self._deadline_timer = asyncio.get_running_loop().call_later(self._idle_seconds, self._close_late)

    def _cancel_deadline(self) -> None:
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
            self._deadline_timer = None

    def _close_late(self) -> None:
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
        """The answer to what is no HTTP: aiohttp's would say what it is, and write a traceback to the log."""
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        if status >= 500:
            _log.error("http: a request failed", exc_info=exc)
        answer = refusal_response(
            "", HttpProblem(status, "this is no HTTP request" if status == 400 else "it failed"), close=True
        )
        answer.headers["Server"] = SERVER_NAME
        return answer


class HttpConnections:
    """Serves an application on a listening socket, on a bounded number of connections.

    ``connected`` is told of each client whether there was room for it.
    """

    def __init__(
        self, application: web.Application, limit: int, seconds: float, connected: Callable[[bool], object]
    ) -> None:
        self._runner = web.AppRunner(application, handle_signals=False)
        self._limit = limit
        self._idle_seconds = seconds
        self._on_connected = connected
        self._active_requests = ActiveRequests()
        self._server: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        options: Mapping[str, Any] = {"sock": listening, "backlog": BACKLOG}
        if listening.family == socket.AF_UNIX:
            self._server = await loop.create_unix_server(self._accept, **options)
        else:
            self._server = await loop.create_server(self._accept, **options)

    def _accept(self) -> asyncio.BaseProtocol:
        server = self._runner.server
        room = server is not None and len(server.connections) < self._limit
        self._on_connected(room)
        if server is None or not room:
            return _RefusingProtocol()
        return HttpConnection(server, self._idle_seconds, self._active_requests)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return not self._active_requests.idle.is_set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""
        if self._server is not None:
            self._server.close()
        server = self._runner.server
        if server is not None:
            self._active_requests.draining = True
            for each in server.connections:
                if each not in self._active_requests:
                    each.force_close()
            try:
                async with asyncio.timeout(seconds):
                    await self._active_requests.idle.wait()
            except TimeoutError:
                _log.warning("http: requests in flight did not finish in %g s", seconds)
            await server.shutdown(_CLOSE_SECONDS)
        await self._runner.cleanup()


class _RefusingProtocol(asyncio.Protocol):
    """Answers a connection with one refusal and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say it and leave."""
        stream = cast("asyncio.Transport", transport)  # uvloop's is none by its type
        stream.write(_TOO_MANY_RESPONSE)
        stream.close()
