"""The routes of the page: each view says which requests it answers, and which role they need."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, TypeAlias, runtime_checkable

from nbstream.listeners.http.page.requests import Answer, PageRequest, Role

PREFIX = "/ui/"
LOGIN_PATH = "/ui/login"
LOGOUT_PATH = "/ui/logout"
STATIC_PREFIX = "/ui/static/"

PageHandler: TypeAlias = Callable[[PageRequest], Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class PageRoute:
    """The handler of the requests with this method (GET or POST) to this path, which may end with ``{id}``.

    ``role`` is needed to read; every POST needs ``Role.TEACH``.
    """

    method: str
    path: str
    handler: PageHandler
    role: Role = Role.READ

    @property
    def needed_role(self) -> Role:
        """The role that a request needs."""
        return Role.TEACH if self.method == "POST" else self.role


class View(Protocol):
    """One view of the page."""

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""


@runtime_checkable
class WorkingView(Protocol):
    """A view that does work of its own between requests."""

    async def close(self) -> None:
        """End that work; no request comes any more."""
