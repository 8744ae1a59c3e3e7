"""What a view of the page is asked, and what it may answer; nothing here knows HTTP."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from nbstream.server.http.access import Role


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has logged in.

    ``name`` says who it is in the history. ``csrf_token`` stands in each form, so that no other site can send one.
    ``is_verified``: Redis has confirmed the session just now; otherwise this process only remembers it, and
    nothing may be changed.
    """

    role: Role
    name: str
    csrf_token: str = field(repr=False)
    is_verified: bool = True


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request of somebody who has logged in.

    ``path_id`` is the last segment of the path where the route has ``{id}``, else empty. ``query`` has the first
    value of each parameter. ``form`` has all values of each field of a POST. ``is_fragment``: a script of the page
    asks, and gets the content without the layout. ``language`` is that of the answer.
    """

    session: Session
    path_id: str = ""
    query: Mapping[str, str] = field(default_factory=dict)
    form: Mapping[str, Sequence[str]] = field(default_factory=dict)
    is_fragment: bool = False
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


@dataclass(frozen=True, slots=True)
class Redirect:
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


# The routes of the page: each view says which requests it answers, and which role they need.

_MAX_TARGET_LENGTH = 500  # proxies refuse an answer with longer fields
_TARGET = re.compile(r"(?![./])(?:[\w=&+~.-]|/(?![./]))*+(?:\?[\w./?=&%+~-]*)?", re.ASCII)

PREFIX = "/ui/"
LOGIN_PATH = "/ui/login"


@dataclass(frozen=True, slots=True)
class PageArea:
    """The paths of a page on its host, and its session cookie, which is sent to these paths alone.

    All paths begin with ``prefix``, but for ``redirected``, which lead there. ``languages`` are those that the
    page has, its own first. ``mailed_login`` is another path of the login, to which links in mails lead.
    """

    prefix: str
    session_cookie: str
    redirected: Collection[str] = ()
    languages: Sequence[str] = ("en",)
    mailed_login: str = ""

    @property
    def login_path(self) -> str:
        """The path of the login."""
        return f"{self.prefix}login"

    @property
    def logout_path(self) -> str:
        """The path of the logout."""
        return f"{self.prefix}logout"

    @property
    def static_prefix(self) -> str:
        """What the paths of the static files begin with."""
        return f"{self.prefix}static/"

    def local_target(self, target: str) -> str:
        """Return the page to show after the login: ``target``, or the first one.

        A link from elsewhere must not lead to another site, nor out of this area by the segments ``..`` of a path.
        """
        path = target.removeprefix(self.prefix)
        is_own = path != target and len(path) <= _MAX_TARGET_LENGTH and _TARGET.fullmatch(path)
        return target if is_own else self.prefix

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to the page."""
        return path.startswith(self.prefix) or path == self.prefix.rstrip("/") or path in self.redirected


FAVICON_PATH = "/favicon.ico"
"""Browsers ask for it where they show something that is no page, such as JSON."""

ADMIN_AREA = PageArea(PREFIX, "nbstream_session", ("/", FAVICON_PATH))
"""The page of administrators."""


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


class View(ABC):
    """One view of the page.

    ``navigation`` are the path and the name with which every page links to it; None for one that has no link.
    """

    navigation: ClassVar[tuple[str, str] | None] = None

    @abstractmethod
    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""

    async def close(self) -> None:  # noqa: B027 - most have nothing to end
        """End what the view does between requests; no request comes any more."""
