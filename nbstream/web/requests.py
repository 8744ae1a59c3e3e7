"""What a view is asked, and what it may answer; nothing here knows HTTP.

A view has a scope, which is that of its area: all mail, or the mail of one address.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from nbstream.server.http.access import Role


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has logged in.

    ``name`` says who it is in the history; that of a user is their address. ``csrf_token`` stands in each form, so
    that no other site can send one.
    """

    role: Role
    name: str
    csrf_token: str = field(repr=False)

    @property
    def may_change(self) -> bool:
        """Whether they may change anything: teach, release, delete, edit sender lists."""
        return self.role.includes(Role.TEACH)


NOBODY = Session(Role.READ, "", "")
"""Who opens a page that needs no login."""


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request to a view.

    ``path_id`` is the last segment of the path where the route has ``{id}``, else empty. ``query`` has the first
    value of each parameter. ``form`` has all values of each field of a POST. ``language`` is that of the
    answer.
    """

    session: Session
    path_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    language: str = "en"

    def form_value(self, name: str) -> str:
        """Return the first value of a field of the form, empty where there is none."""
        return next(iter(self.form.get(name, ())), "")


@dataclass(frozen=True, slots=True)
class Page:
    """A template of ``templates/`` with its values."""

    template: str
    values: Mapping[str, object] = field(default_factory=dict)
    status: int = 200


class Redirect(NamedTuple):
    """Another path, after a POST. ``flash`` is shown once, by the next page of the session."""

    path: str
    flash: str = ""


Answer: TypeAlias = Page | Redirect


class PageRefused(Exception):
    """A request is refused with this status; ``text`` is shown."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status = status
        self.text = text


PageHandler: TypeAlias = Callable[[PageRequest], Awaitable[Answer]]


class PageRoute(NamedTuple):
    """The handler of the requests with this method (GET or POST) to this path, which may end with ``{id}``.

    Every POST needs ``Role.TEACH``. ``is_open``: no login is needed; what the request has in it, such as a signed
    link, says what may be done.
    """

    method: str
    path: str
    handler: PageHandler
    is_open: bool = False


class View(ABC):
    """One view.

    ``navigation`` are the path and the name with which every page links to it; None for one that has no link. The
    name of a view of users is that of a text.
    """

    navigation: tuple[str, str] | None = None

    @abstractmethod
    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
