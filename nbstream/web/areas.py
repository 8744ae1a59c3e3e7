"""The two areas of the web interface, each with a scope: all mail, or the mail of one address."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from nbstream.server.http.access import Role
from nbstream.store.logins import USER_ROLE

if TYPE_CHECKING:
    from nbstream.server.connections import Peer
    from nbstream.web.metrics import RequestMetrics
    from nbstream.web.requests import View


class Identity(NamedTuple):
    """Who has proved who they are; ``password`` is the one of administrators that they proved it with."""

    role: str
    name: str
    password: str | None = None


class Authenticator(Protocol):
    """Who may log in to an area, and by what."""

    @property
    def has_password(self) -> bool:
        """Whether there is a password to log in with, and not links alone."""

    async def identify(self, form: Mapping[str, str], client: Peer, sources: Mapping[str, int]) -> Identity:
        """Return who sends the form of the login.

        ``sources`` are for whom a wrong password is counted, the client first. Raises ``PageRefused``, whose text
        is the name of one, and ``StoreUnavailable``.
        """


_MAX_TARGET_LENGTH = 500  # proxies refuse an answer with longer fields
_TARGET = re.compile(r"(?![./])(?:[\w=&+~.-]|/(?![./]))*+(?:\?[\w./?=&%+~-]*)?", re.ASCII)


class Area(NamedTuple):
    """The paths of one scope, their session cookie, which is sent to these paths alone, and what is served there.

    All paths begin with ``prefix``, but for ``redirected``, which lead there. ``roles`` are those of stored logins
    that may come in. ``languages`` are those that the area has, its own first. ``mailed_login`` is another path of
    the login, to which links in mails lead. Without an ``authenticator`` nobody can log in: only what needs no
    login is served.
    """

    prefix: str
    session_cookie: str
    roles: Collection[str]
    redirected: Collection[str] = ()
    languages: Sequence[str] = ("en",)
    mailed_login: str = ""
    views: Sequence[View] = ()
    authenticator: Authenticator | None = None
    metrics: RequestMetrics | None = None

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

    @property
    def navigation(self) -> Sequence[tuple[str, str]]:
        """The paths and the names of the views that every page links to."""
        return [view.navigation for view in self.views if view.navigation]

    def local_target(self, target: str) -> str:
        """Return the page to show after the login: ``target``, or the first one.

        A link from elsewhere must not lead to another site, nor out of this area by the segments ``..`` of a path.
        """
        path = target.removeprefix(self.prefix)
        is_own = path != target and len(path) <= _MAX_TARGET_LENGTH and _TARGET.fullmatch(path)
        return target if is_own else self.prefix

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to the area."""
        return path.startswith(self.prefix) or path == self.prefix.rstrip("/") or path in self.redirected


PREFIX = "/ui/"
USER_PREFIX = "/my/"

FAVICON_PATH = "/favicon.ico"
"""Browsers ask for it where they show something that is no page, such as JSON."""

ADMIN_AREA = Area(PREFIX, "nbstream_session", frozenset(Role), ("/", FAVICON_PATH))
"""All mail, for administrators."""

USER_AREA = Area(
    USER_PREFIX,
    "nbstream_my_session",
    frozenset({USER_ROLE}),
    languages=("en", "de"),
    mailed_login=f"{USER_PREFIX}link/login",
)
"""The mail of one address, for its user."""
