"""The HTTP door: metrics and health. Checks and feedback over HTTP come with their own protocol.

Rules: requests from another machine need the password where one is set (compared in constant time), but for
the two health checks, which say nothing of the mail.
"""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

if TYPE_CHECKING:
    from collections.abc import Mapping

_METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_SHUTDOWN_SECONDS = 2.0

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(frozen=True, slots=True)
class Health:
    """Whether mail can be scored and relayed, and what is degraded (name → why)."""

    ready: bool
    degraded: Mapping[str, str]


class HttpListener:
    """Serves ``/metrics``, and unless it is for metrics alone ``/healthz`` and ``/readyz``."""

    def __init__(
        self,
        metrics: Callable[[], bytes],
        health: Callable[[], Awaitable[Health]] | None,
        password: str | None = None,
    ) -> None:
        self._metrics = metrics
        self._health = health
        self._password = password
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen, and return the address in use."""
        application = web.Application(middlewares=[self._authorize], client_max_size=64 * 1024)
        application.router.add_get("/metrics", self._serve_metrics)
        if self._health is not None:
            application.router.add_get("/healthz", self._serve_alive)
            application.router.add_get("/readyz", self._serve_ready)
        self._runner = web.AppRunner(application, access_log=None, shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        address = self._runner.addresses[0]
        return address[0], address[1]

    async def close(self) -> None:
        """Stop accepting and finish the requests under way."""
        if self._runner is not None:
            await self._runner.cleanup()

    @web.middleware
    async def _authorize(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.path not in {"/healthz", "/readyz"} and not self._believed(request):
            return web.Response(status=401, text="password needed\n", headers={"WWW-Authenticate": "Bearer"})
        return await handler(request)

    def _believed(self, request: web.Request) -> bool:
        if self._password is None or ipaddress.ip_address(request.remote or "0.0.0.0").is_loopback:  # noqa: S104 - no bind
            return True
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else request.headers.get("Password", "")
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._password.encode())

    async def _serve_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics(), headers={"Content-Type": _METRICS_TYPE})

    async def _serve_alive(self, _: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def _serve_ready(self, _: web.Request) -> web.Response:
        assert self._health is not None
        health = await self._health()
        body = {"ready": health.ready, "degraded": dict(health.degraded)}
        return web.json_response(body, status=200 if health.ready else 503)
