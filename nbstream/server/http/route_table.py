"""Routes, found by path and method."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, Protocol, TypeVar

from aiohttp import web

from nbstream.server.http.responses import RequestRefused


class RouteEntry(Protocol):
    """A route: requests with this method to this path.

    The route of GET answers HEAD as well. A path may end with ``{id}``, which stands for any last segment;
    ``last_segment`` returns it.
    """

    @property
    def method(self) -> str:
        """The method in capital letters."""

    @property
    def path(self) -> str:
        """The path from the root on."""


Entry = TypeVar("Entry", bound=RouteEntry)


def last_segment(request: web.BaseRequest) -> str:
    """Return what stands for ``{id}`` in the path of a request."""
    return request.path.rpartition("/")[2]


class RouteTable(Generic[Entry]):
    """The routes, by path and method."""

    def __init__(self, routes: Iterable[Entry]) -> None:
        self._routes: dict[str, dict[str, Entry]] = {}
        for route in routes:
            by_method = self._routes.setdefault(route.path, {})
            by_method[route.method] = route
            if route.method == "GET":
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
