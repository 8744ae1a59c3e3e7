"""The HTTP listener: it serves routes, and refuses requests without the right to them.

Rules: a request with an ``Origin`` field is refused, because a page in a browser could post to loopback; other
origins get no permission (no CORS). The pages, such as that below ``/ui/``, have their own rules
(``nbstream.web.server``). The answer to a request that fails does not say why.
"""

from __future__ import annotations

import asyncio
import logging
import math
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Generic, NamedTuple, Protocol, TypeVar

from aiohttp import HttpVersion11, web

from nbstream.errors import NbstreamError
from nbstream.logs import event_fields
from nbstream.server.api_json import HttpProblem
from nbstream.server.connections import Connections, Peer, RefusingProtocol
from nbstream.server.http.access import (
    HeaderFields,
    HttpAccess,
    Role,
    TooManyFailures,
    failure_sources,
    offered_passwords,
    origin_fields,
)
from nbstream.server.http.responses import (
    FAULT,
    TEXT_TYPE,
    ApiResponse,
    RequestRefused,
    error_problem,
    json_response,
    refusal_response,
)
from nbstream.server.limits import ListenerLimits
from nbstream.server.message_service import REQUEST_ERRORS

if TYPE_CHECKING:
    from nbstream.server.message_service import MessageService
    from nbstream.server.runtime import Runtime


# Routes, found by path and method.


Entry = TypeVar("Entry")


def last_segment(request: web.BaseRequest) -> str:
    """Return what stands for ``{id}`` in the path of a request."""
    return request.path.rpartition("/")[2]


class RouteTable(Generic[Entry]):
    """The routes: what stands for requests with a method in capital letters to a path from the root on.

    The route of GET answers HEAD as well. A path may end with ``{id}``, which stands for any last segment;
    ``last_segment`` returns it.
    """

    def __init__(self, routes: Iterable[tuple[str, str, Entry]]) -> None:
        self._routes: dict[str, dict[str, Entry]] = {}
        for method, path, route in routes:
            by_method = self._routes.setdefault(path, {})
            by_method[method] = route
            if method == "GET":
                by_method["HEAD"] = route

    def find(self, method: str, path: str) -> Entry:
        """Return the route of a request; raises ``RequestRefused`` where there is none."""
        by_method = self._routes.get(path)
        if by_method is None:
            parent, slash, segment = path.rpartition("/")
            by_method = self._routes.get(f"{parent}{slash}{{id}}") if segment else None
        if by_method is None:
            raise RequestRefused(404, "Not Found")
        route = by_method.get(method)
        if route is None:
            raise RequestRefused(405, "Method Not Allowed", allow=",".join(sorted(by_method)))
        return route


_log = logging.getLogger(__name__)

# The connections: their number, their time without a request, and their end.

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


class HttpConnection(web.RequestHandler):
    """One connection, which is closed if no whole request header arrives in time, even if single bytes do.

    ``trusted_origin`` are the ``origin_fields`` with which its peer needs no password, once that is known.
    """

    trusted_origin: HeaderFields | None = None

    def __init__(self, listener: HttpListener) -> None:
        assert listener.server is not None
        super().__init__(
            listener.server,
            loop=asyncio.get_running_loop(),
            access_log=None,  # type: ignore[arg-type]  # aiohttp's own way to turn it off
            keepalive_timeout=listener.idle_seconds,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )
        self._listener = listener
        self._deadline = math.inf  # of the next request, on the clock of the loop
        self._deadline_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._listener.connections.opened(self)
        self.request_ended()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer; a request that is being answered continues to its end."""
        if self._deadline_timer is not None:
            self._deadline_timer.cancel()
        self._listener.connections.closed(self)
        super().connection_lost(exc)

    def request_began(self) -> None:
        """Note that the header of a request has arrived: the body has a deadline of its own."""
        self._listener.answering.add(self)
        self._deadline = math.inf

    def close_if_idle(self) -> None:
        """Close the connection, for the daemon drains, unless a request is being answered."""
        if self not in self._listener.answering:
            self.force_close()

    def abort(self) -> None:
        """Drop the connection."""
        if self.transport is not None:
            self.transport.abort()

    def request_ended(self) -> None:
        """Note that the answer is ready: the client has the idle time to read it and to send the next request."""
        self._listener.note_answered(self)
        if self._listener.connections.draining:
            self.close()  # not earlier: aiohttp would drop the rest of the body
        if self.transport is not None:
            self._deadline = asyncio.get_running_loop().time() + self._listener.idle_seconds
            if self._deadline_timer is None:
                self._set_deadline_timer(self._listener.idle_seconds)

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


# What the listener serves.

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class HealthStatus(NamedTuple):
    """Whether mail can be scored and relayed, and what is degraded, with the reason by name."""

    ready: bool
    degraded: Mapping[str, str]


class Route(NamedTuple):
    """The handler of the requests with this method to this path, as ``RouteTable`` says.

    ``role`` is what a request needs the right to; None for nothing.
    """

    method: str
    path: str
    handler: RequestHandler
    role: Role | None = Role.READ


def metrics_route(metrics: Callable[[], bytes]) -> Route:
    """Return the route of ``/metrics``; ``metrics`` returns the text to serve."""
    rendering = _SharedRendering(metrics)

    async def serve(_: web.BaseRequest) -> web.StreamResponse:
        return ApiResponse(await rendering.text(), METRICS_TYPE)

    return Route("GET", "/metrics", serve)


class _SharedRendering:
    """Renders the metrics once for all who wait for them.

    A text takes about 10 ms of the event loop, and whoever may scrape may do so on all connections at once.
    """

    def __init__(self, render: Callable[[], bytes]) -> None:
        self._render = render
        self._next: asyncio.Task[bytes] | None = None

    async def text(self) -> bytes:
        """Return the metrics as they are at this moment or later."""
        if self._next is None:
            self._next = asyncio.create_task(self._render_next(), name="metrics")
        return await asyncio.shield(self._next)

    async def _render_next(self) -> bytes:
        await asyncio.sleep(0)  # others may run between two texts
        self._next = None  # whoever comes from now on gets the text after this one
        return self._render()


def health_routes(health: Callable[[], Awaitable[HealthStatus]]) -> Iterable[Route]:
    """Return the routes of ``/healthz`` and ``/readyz``, which need no right: they reveal nothing about mail."""

    async def alive(_: web.BaseRequest) -> web.StreamResponse:
        return ApiResponse(b"ok\n", TEXT_TYPE)

    async def ready(_: web.BaseRequest) -> web.StreamResponse:
        status = await health()
        body = {"ready": status.ready, "degraded": dict(status.degraded)}
        return json_response(body, status=200 if status.ready else 503)

    return Route("GET", "/healthz", alive, None), Route("GET", "/readyz", ready, None)


class SubApplication(Protocol):
    """What is served beside the routes, with rules of its own; here, because the pages are in a layer above."""

    async def close(self) -> None:
        """End what is done between requests; no request comes any more."""

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to it."""

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.StreamResponse:
        """Answer a request. What it raises ``refusal`` answers, once it is an ``HttpProblem``."""

    def refusal(
        self, request: web.BaseRequest, problem: HttpProblem, *, close: bool, allow: str | None
    ) -> web.Response:
        """Return the answer that says why a request is refused."""


class HttpListener:
    """Serves routes on one socket.

    ``message_service`` is the service that the routes check and teach with, and its limits hold; None where they
    do neither. ``pages`` are served beside the routes, where there are any.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        access: HttpAccess | None = None,
        limits: ListenerLimits | None = None,
        message_service: MessageService | None = None,
        pages: SubApplication | None = None,
    ) -> None:
        self._access = access
        self._message_service = message_service
        self._pages = pages
        self._routes = RouteTable((route.method, route.path, route) for route in routes)
        limits = message_service.limits if message_service else limits or ListenerLimits()
        self.connections = (
            message_service.connections() if message_service else Connections("metrics", limits.max_connections)
        )
        self.idle_seconds = limits.idle_timeout_seconds
        self.server: web.Server | None = None
        self.answering: set[HttpConnection] = set()
        """The connections whose request is being answered."""
        self._all_answered = asyncio.Event()
        self._buffer = bytearray(_READ_BYTES)

    async def start(self, *sockets: socket.socket) -> None:
        """Serve on these sockets. The protocol is that of aiohttp, with an end of its own."""
        self.server = web.Server(self._serve)
        await self.connections.listen(sockets, self._accept)

    def _accept(self) -> asyncio.BaseProtocol:
        if not self.connections.admit():
            return RefusingProtocol(_TOO_MANY_RESPONSE)
        return _SmallReads(HttpConnection(self), self._buffer)

    def apply(self, runtime: Runtime) -> None:
        """Use ``runtime`` from the next request on."""
        if self._message_service is not None:
            self._message_service.apply(runtime)

    def note_answered(self, connection: HttpConnection) -> None:
        """Note that no request of the connection is being answered, or no longer."""
        self.answering.discard(connection)
        if not self.answering:
            self._all_answered.set()

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let active requests finish within ``seconds``, then close all connections.

        A drain waits for answers, and not for connections.
        """
        self.connections.stop()
        try:
            async with asyncio.timeout(seconds):
                while self.answering:
                    self._all_answered.clear()
                    await self._all_answered.wait()
        except TimeoutError:
            _log.warning("http: requests were still running after %g s", seconds)
        try:
            if self.server is not None:
                await self.server.shutdown(_CLOSE_SECONDS)
        finally:
            if self._pages:
                await self._pages.close()

    def _needs_no_password(
        self, access: HttpAccess, request: web.BaseRequest, route: Route, connection: HttpConnection
    ) -> bool:
        if route.role is None:
            return True
        origin = origin_fields(request.headers.items())
        if route.role is Role.READ and origin == connection.trusted_origin:
            return True
        role = access.role_without_password(self._peer(request), origin)
        if role is not None:
            connection.trusted_origin = origin
        return role is not None and role.includes(route.role)

    async def _check_password(self, access: HttpAccess, request: web.BaseRequest, route: Route) -> None:
        peer, fields = self._peer(request), tuple(request.headers.items())
        refused = RequestRefused(
            401, f"the password{' for teaching' if route.role is Role.TEACH else ''} is needed"
        )
        offered = offered_passwords(fields)
        password = "wrong" if offered else "none"
        if offered:
            try:
                role = await access.passwords.role_of(offered, failure_sources(peer, fields, access.allow_from))
            except TooManyFailures:
                refused = RequestRefused(429, "too many wrong passwords, please try again in a minute")
                password = "not compared"  # noqa: S105 - a word for the log
            else:
                if role is not None and (route.role is None or role.includes(route.role)):
                    return
        # Programs such as fail2ban read the address; the path is the route's, not the client's text.
        log_fields = {"peer": str(peer), "path": route.path, "password": password}
        if route.role is Role.TEACH and self._message_service is not None:
            self._message_service.feedback_refused(fields=log_fields)
        else:
            _log.warning("http: a request was refused", extra=event_fields(**log_fields))
        raise refused

    def _peer(self, request: web.BaseRequest) -> Peer:
        return Peer(None if self.connections.is_unix_socket else request.remote or "")

    async def _serve(self, request: web.BaseRequest) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, HttpConnection)
        connection.request_began()
        try:
            answer = await self._answer(request, connection)
        except RequestRefused as refused:
            answer = self._refusal(request, refused.problem, close=refused.close, allow=refused.allow)
        except NbstreamError as error:
            if not isinstance(error, REQUEST_ERRORS):
                _log.exception("http: a request failed")
            answer = self._refusal(request, error_problem(error))
        except ConnectionError:
            _log.debug("http: the client went away")
            answer = self._refusal(request, HttpProblem(400, "the body is incomplete"), close=True)
        except Exception:  # noqa: BLE001 - only the log says what a fault is
            _log.exception("http: a request failed")
            answer = self._refusal(request, FAULT, close=True)
        finally:
            connection.request_ended()
        if not answer.prepared:
            complete_fields(answer)
        return answer

    async def _answer(self, request: web.BaseRequest, connection: HttpConnection) -> web.StreamResponse:
        headers = request.headers
        if "Expect" in headers and request.version == HttpVersion11:
            await _answer_expectation(request)
        if pages := self._pages_of(request):
            return await pages.answer(request, self._peer(request))
        if "Origin" in headers:
            raise RequestRefused(403, "requests of web pages are not answered", close=True)
        route = self._routes.find(request.method, request.path)
        access = self._access
        if access is not None and not self._needs_no_password(access, request, route, connection):
            await self._check_password(access, request, route)
        return await route.handler(request)

    def _pages_of(self, request: web.BaseRequest) -> SubApplication | None:
        return self._pages if self._pages and self._pages.serves(request.path) else None

    def _refusal(
        self, request: web.BaseRequest, problem: HttpProblem, *, close: bool = False, allow: str | None = None
    ) -> web.StreamResponse:
        if pages := self._pages_of(request):
            return pages.refusal(request, problem, close=close, allow=allow)
        return refusal_response(request.path, problem, close=close, allow=allow)


async def _answer_expectation(request: web.BaseRequest) -> None:
    """Let a client send its body that waits for this (RFC 9110 10.1.1)."""
    if request.headers["Expect"].lower() != "100-continue":
        raise RequestRefused(417, "Expectation Failed")
    await request.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
    request.writer.output_size = 0  # of the answer itself, which has not begun
