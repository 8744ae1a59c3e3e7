"""The HTTP door: metrics and health, and whatever other routes it is given; who may ask, and how much.

Rules: a request with an ``Origin`` field is refused, since a page in a browser could post to loopback; nothing is
said to other origins (no CORS). A request that fails is told nothing of why.
"""

from __future__ import annotations

import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from typing import TYPE_CHECKING

from aiohttp import web

from nbstream.errors import NbstreamError
from nbstream.listeners.http.access import Access, offers_secret
from nbstream.listeners.http.bodies import Limits
from nbstream.listeners.http.connections import SOFTWARE, Connection, Connections
from nbstream.listeners.http.responses import Refused, json, refusal
from nbstream.wire import api_v1
from nbstream.wire.api_v1 import Problem

if TYPE_CHECKING:
    from nbstream.filter import Filter
    from nbstream.listeners.message_service import Desk

_log = logging.getLogger(__name__)

NAME = "http"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether mail can be scored and relayed, and what is degraded (name → why)."""

    ready: bool
    degraded: Mapping[str, str]


class Level(Enum):
    """What a request needs: nothing, the right to read and check, or that to teach."""

    OPEN = auto()
    READ = auto()
    TEACH = auto()


@dataclass(frozen=True, slots=True)
class Route:
    """What answers requests of a method to a path."""

    method: str
    path: str
    handler: Handler
    level: Level = Level.READ


def metrics_route(metrics: Callable[[], Awaitable[bytes]]) -> Route:
    """``/metrics``."""

    async def serve(_: web.Request) -> web.Response:
        return web.Response(body=await metrics(), headers={"Content-Type": METRICS_TYPE})

    return Route("GET", "/metrics", serve)


def health_routes(health: Callable[[], Awaitable[Health]]) -> Iterable[Route]:
    """``/healthz`` and ``/readyz``, which say nothing of the mail."""

    async def alive(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def ready(_: web.Request) -> web.Response:
        found = await health()
        body = api_v1.health(ready=found.ready, degraded=found.degraded)
        return json(body, status=200 if found.ready else 503)

    return Route("GET", "/healthz", alive, Level.OPEN), Route("GET", "/readyz", ready, Level.OPEN)


class HttpListener:
    """Serves routes on one socket.

    ``desk`` is what the routes teach and check with, None where they do neither.
    """

    def __init__(
        self,
        routes: Iterable[Route],
        access: Access | None = None,
        limits: Limits | None = None,
        desk: Desk | None = None,
    ) -> None:
        self._access = access
        self._limits = limits or Limits()
        self._desk = desk
        self._local = False
        application = web.Application(middlewares=[self._serve])
        application.on_response_prepare.append(_name_software)
        for route in routes:
            add = application.router.add_get if route.method == "GET" else application.router.add_post
            add(route.path, self._guarded(route))  # what answers GET answers HEAD
        self._connections = Connections(
            application,
            self._limits.max_connections,
            self._limits.request_timeout_seconds,
            desk.connected if desk else lambda _: None,
        )

    @property
    def judges(self) -> bool:
        """Whether it checks and learns; without a ``desk`` it has no ``spam_filter``."""
        return self._desk is not None

    @property
    def spam_filter(self) -> Filter:
        """What checks and learns; it may be replaced at any time, the next request goes by the new one."""
        assert self._desk is not None
        return self._desk.spam_filter

    @spam_filter.setter
    def spam_filter(self, spam_filter: Filter) -> None:
        if self._desk is not None:
            self._desk.spam_filter = spam_filter

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""
        self._local = listening.family == socket.AF_UNIX
        await self._connections.start(listening)

    @property
    def busy(self) -> bool:
        """Whether a request is being answered."""
        return self._connections.busy

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""
        await self._connections.drain(seconds)

    def _guarded(self, route: Route) -> Handler:
        async def serve(request: web.Request) -> web.StreamResponse:
            self._authorize(request, route)
            return await route.handler(request)

        return serve

    def _authorize(self, request: web.Request, route: Route) -> None:
        access = self._access
        if access is None or route.level is Level.OPEN:
            return
        peer, fields = None if self._local else request.remote or "", tuple(request.headers.items())
        may = access.reads if route.level is Level.READ else access.teaches
        if may(peer, fields):
            return
        # The address is what programs such as fail2ban read; the path is that of the route.
        password = "wrong" if offers_secret(fields) else "none"
        told = {"peer": "local" if peer is None else peer, "path": route.path, "password": password}
        if route.level is Level.TEACH and self._desk is not None:
            self._desk.refused(told=told)
        else:
            _log.warning("http: a request was refused", extra={"fields": told})
        raise Refused(401, f"the password{' for teaching' if route.level is Level.TEACH else ''} is needed")

    @web.middleware
    async def _serve(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        connection = request.protocol
        assert isinstance(connection, Connection)
        connection.began()
        try:
            _refuse_pages(request)
            return await handler(request)
        except Refused as refused:
            return refusal(request.path, refused.problem, close=refused.close)
        except web.HTTPException as error:  # of the router: no such path, or not by this method
            return refusal(request.path, Problem(error.status, error.reason), allow=error.headers.get("Allow"))
        except NbstreamError as error:
            return refusal(request.path, Problem(503, _public(error)))
        except ConnectionError:
            _log.debug("http: the client went away")
            return refusal(request.path, Problem(400, "the body ended too early"), close=True)
        except Exception:  # noqa: BLE001 - a client is told nothing of a fault, the log everything
            _log.exception("http: a request failed")
            return refusal(request.path, Problem(500, "this failed, the log says why"), close=True)
        finally:
            connection.ended()


def _refuse_pages(request: web.Request) -> None:
    if "Origin" in request.headers:
        raise Refused(403, "requests of web pages are not answered", close=True)


def _public(error: NbstreamError) -> str:
    """What a client may see of it, without the enhanced status code that mail servers want."""
    return error.reply.text.partition(" ")[2]


async def _name_software(_: web.Request, response: web.StreamResponse) -> None:
    response.headers["Server"] = SOFTWARE
