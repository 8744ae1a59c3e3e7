"""Connections of the HTTP door: how many there are, how long each may be without a request, and how they end."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import TYPE_CHECKING, Any, cast

from aiohttp import web

from nbstream.listeners.http.responses import refusal
from nbstream.listeners.sockets import BACKLOG
from nbstream.wire.api_v1 import Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_log = logging.getLogger(__name__)

SOFTWARE = "nbstream"
"""What answers say of their server: no versions."""

_LINGER_SECONDS = 2.0  # what a refused client still sends is read for so long, so that it sees the answer
_CLOSE_SECONDS = 1.0
_TOO_MANY = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nContent-Length: 61\r\n"
    b'Retry-After: 5\r\nConnection: close\r\n\r\n{"error": "too many connections now, please try again later"}'
)


class UnderWay:
    """The connections whose request is being answered; ``none`` is set while there is none.

    ``draining``: each is closed after its answer.
    """

    def __init__(self) -> None:
        self.draining = False
        self._connections: set[Connection] = set()
        self.none = asyncio.Event()
        self.none.set()

    def __contains__(self, connection: object) -> bool:
        return connection in self._connections

    def add(self, connection: Connection) -> None:
        """Its request is being answered."""
        self._connections.add(connection)
        self.none.clear()

    def discard(self, connection: Connection) -> None:
        """It is not, or no more."""
        self._connections.discard(connection)
        if not self._connections:
            self.none.set()


class Connection(web.RequestHandler):
    """One connection. Without a request in time it is closed, whether it is silent or sends one byte a minute."""

    def __init__(self, server: web.Server, seconds: float, under_way: UnderWay) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to have none
            keepalive_timeout=seconds,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._seconds = seconds
        self._under_way = under_way
        self._late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self.ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        """The client is gone; a request under way goes on to its end."""
        self._disarm()
        super().connection_lost(exc)

    def began(self) -> None:
        """The header of a request is here: reading its body has a deadline of its own."""
        self._under_way.add(self)
        self._disarm()

    def ended(self) -> None:
        """The answer is ready: in that time the client is to take it, and to send the next request."""
        self._under_way.discard(self)
        if self._under_way.draining:
            self.close()  # not before: aiohttp would drop the rest of the body
        if self.transport is not None:
            self._disarm()
            self._late = asyncio.get_running_loop().call_later(self._seconds, self._give_up)

    def _disarm(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
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
        answer = refusal(
            "", Problem(status, "this is no HTTP request" if status == 400 else "it failed"), close=True
        )
        answer.headers["Server"] = SOFTWARE
        return answer


class Connections:
    """Serves an application on a listening socket, on a bounded number of connections.

    ``connected`` is told of each client whether there was room for it.
    """

    def __init__(
        self, application: web.Application, limit: int, seconds: float, connected: Callable[[bool], object]
    ) -> None:
        self._runner = web.AppRunner(application, handle_signals=False)
        self._limit = limit
        self._seconds = seconds
        self._connected = connected
        self._under_way = UnderWay()
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
        self._connected(room)
        if server is None or not room:
            return _TurnAway()
        return Connection(server, self._seconds, self._under_way)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return not self._under_way.none.is_set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""
        if self._server is not None:
            self._server.close()
        server = self._runner.server
        if server is not None:
            self._under_way.draining = True
            for each in server.connections:
                if each not in self._under_way:
                    each.force_close()
            try:
                async with asyncio.timeout(seconds):
                    await self._under_way.none.wait()
            except TimeoutError:
                _log.warning("http: requests in flight did not finish in %g s", seconds)
            await server.shutdown(_CLOSE_SECONDS)
        await self._runner.cleanup()


class _TurnAway(asyncio.Protocol):
    """Answers a connection with one refusal and closes it."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Say it and leave."""
        stream = cast("asyncio.Transport", transport)  # uvloop's is none by its type
        stream.write(_TOO_MANY)
        stream.close()
