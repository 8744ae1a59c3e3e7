"""The login of users, with the password of their mailbox or a signed link that was mailed to them; their sessions.

Rules: a wrong password, a user who does not exist and one who may not log in get one answer. Wrong passwords are
limited by the client and by the user, however the name is spelled; whoever guesses keeps no user out of a client
that they have logged in from lately. There is no limit for all clients of a proxy together: strangers would reach
it for everybody, and no user has more to fear from many clients than from one. An attempt counts as wrong until
the server has said that it is right: of many at the same time no more pass. A link logs in by a button alone,
since scanners of mail open links.

A session is a key of Redis, and each request asks for it; without Redis nobody has one. It is that of an
address, which alone decides what is shown. It ends after twelve hours, by the logout, and where the settings let
the address in no more. Nothing that an administrator has is a session here, and the reverse.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote

from prometheus_client import Counter

from nbstream.errors import StoreUnavailable
from nbstream.logs import event_fields
from nbstream.mail.addresses import parse_address
from nbstream.server.http.access import FailureCounts, Role, TooManyFailures, client_of, failure_sources
from nbstream.store.logins import SESSION_SECONDS, PageSessionStore
from nbstream.web.admin.login import Login, csrf_token
from nbstream.web.admin.metrics import RequestMetrics
from nbstream.web.admin.requests import Page, PageArea, PageRefused, Session
from nbstream.web.admin.responses import html_response, redirect, set_cookie
from nbstream.web.admin.server import choose_language
from nbstream.web.users.links import LinkPurpose, link_path
from nbstream.web.users.login_servers import MAX_NAME_LENGTH, MAX_PASSWORD_LENGTH, LoginUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from aiohttp import web
    from redis.asyncio import Redis

    from nbstream.metrics import MetricsRegistry
    from nbstream.server.connections import Peer
    from nbstream.store.logins import LoginKeys
    from nbstream.web.users.links import LinkKeys
    from nbstream.web.users.login_servers import LoginServer

PREFIX = "/my/"

USER_AREA = PageArea(
    PREFIX, "nbstream_my_session", languages=("en", "de"), mailed_login=link_path(LinkPurpose.LOGIN)
)
"""The page of users."""

_ROLE = "user"
_ASK_SECONDS = 5.0
_MAX_FAILURES = 10  # a minute, of one client and with the name of one user
_MAX_LOGINS = 60  # a minute and client
_MAX_WAITING = 50  # logins that wait for the server

_log = logging.getLogger(__name__)


class UserSessions:
    """The sessions of users; ``address_of`` returns the address of a user who may log in, by his name."""

    def __init__(self, client: Redis, keys: LoginKeys, address_of: Callable[[str], str | None]) -> None:
        self._store = PageSessionStore(client, keys)
        self._address_of = address_of

    async def begin(self, address: str) -> str:
        """Return the token of a new session. Raises ``StoreUnavailable``."""
        return await self._store.create_session(_ROLE, address)

    async def find(self, token: str) -> Session | None:
        """Return the session, whose name is the address; None where there is none. Raises ``StoreUnavailable``."""
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                login = await self._store.find_session(token)
        except TimeoutError as error:
            raise StoreUnavailable("the sessions of users cannot be looked up") from error
        if login is None or login.role != _ROLE or self._address_of(login.name) != login.name:
            return None
        return Session(Role.TEACH, login.name, csrf_token(token))

    async def end(self, token: str) -> None:
        """End the session, in all processes. Raises ``StoreUnavailable``."""
        await self._store.end_session(token)


class UserPageMetrics(RequestMetrics):
    """Count requests and attempts to log in; no user is told from another.

    They are exported only where ``user_page`` is configured. Names are a contract.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        super().__init__(
            Counter(
                "nbstream_user_page_requests",
                "Requests below /my/, by HTTP status. Only with user_page.",
                ["status"],
                registry=registry.counts,
            ),
            Counter(
                "nbstream_user_page_logins",
                "Attempts of users to log in to their page, by method (link, password) and outcome (accepted, "
                "refused). Only with user_page.",
                ["method", "outcome"],
                registry=registry.counts,
            ),
        )


@dataclass(eq=False, kw_only=True, slots=True)
class UserLogin(Login):
    """The login of users; ``server`` is None where they log in by links alone.

    ``address_of`` returns the address of a user who may log in, by their name. A refusal has the name of its text.
    """

    server: LoginServer | None
    links: LinkKeys
    sessions: UserSessions
    address_of: Callable[[str], str | None]
    _failures: FailureCounts = field(init=False)
    _waiting: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._failures = FailureCounts(self.counts)

    def ask_to_log_in(self, request: web.BaseRequest) -> web.Response:
        """Send whoever wants to see a page to the form, and refuse everything else with it."""
        if request.method in {"GET", "HEAD"}:
            target = USER_AREA.local_target(request.rel_url.raw_path_qs)
            return redirect(f"{USER_AREA.login_path}?to={quote(target, safe='/')}")
        response = self._form_page(request, {}, PageRefused(403, "login_ended"))
        response.force_close()  # the rest of a form is not read
        return response

    async def _log_in(self, request: web.BaseRequest, form: Mapping[str, str], peer: Peer) -> web.Response:
        fields = tuple(request.headers.items())
        client = client_of(peer, fields, self.allow_from)
        source = next(iter(failure_sources(peer, fields, self.allow_from)))  # without that of a proxy
        method = "link" if "link" in form else "password"
        try:
            if method == "link":
                address = await self._user_of_link(form["link"])
            else:
                address = await self._user_of_password(form, client, source)
            await self._count_login(source)
        except PageRefused as refused:
            self.metrics.login_tried(method, accepted=False)
            # Programs such as fail2ban read the address of the peer: whoever says that it is a proxy may lie.
            told = {"peer": str(peer), "path": USER_AREA.login_path, "password": "wrong", "client": str(client)}
            if refused.status != 503:
                _log.warning("http: a request was refused", extra=event_fields(**told))
            return self._form_page(request, form, refused)
        token = await self.sessions.begin(address)
        self.metrics.login_tried(method, accepted=True)
        _log.info("page: a user logged in", extra=event_fields(client=str(client), user=address))
        # No redirect: a browser does not send the new cookie with one that began on another site.
        page = Page("logged_in.html", {"target": USER_AREA.local_target(form.get("to", ""))})
        response = self._render(request, page)
        set_cookie(response, request, USER_AREA.session_cookie, token, SESSION_SECONDS, path=PREFIX)
        return response

    async def _count_login(self, source: str) -> None:
        """Count a login of this client; ``PageRefused`` for too many, since each stays in Redis for hours."""
        (logins,) = await self.counts.add([f"{source} logins"])
        if logins.count > _MAX_LOGINS:
            raise PageRefused(429, "login_too_many")

    async def _user_of_link(self, token: str) -> str:
        signer = await self.links.signer()
        link = signer.read(token, LinkPurpose.LOGIN, time.time())
        if link is None or self.address_of(link.address) != link.address:
            raise PageRefused(403, "login_link_wrong")
        return link.address

    async def _user_of_password(self, form: Mapping[str, str], client: Peer, source: str) -> str:
        name, password = form.get("user", "").strip(), form.get("password", "")
        wrong = PageRefused(403, "login_wrong")
        limits = {source: _MAX_FAILURES, f"user {self._name_digest(name)}": _MAX_FAILURES}
        try:
            self._failures.require_room(limits)
            self._failures.add(limits)  # until it is known to be right
            user = await self._ask_server(name, password, client, limits)
            address = self.address_of(user) if user is not None else None
            if address is None:
                await self._failures.share(limits)
                raise wrong
        except TooManyFailures:
            raise PageRefused(429, "login_too_many") from None
        self._failures.take_back(limits)
        self._failures.succeed(limits)
        return address

    def _name_digest(self, name: str) -> str:
        """Return what stands for all spellings of the name of a user.

        A name that is no address here may still be one to the server, which may ignore its domain or detail.
        """
        counted = self.address_of(name) or re.split("[+@]", parse_address(name)[0])[0]
        return hashlib.blake2b(counted.encode("utf-8", "replace"), digest_size=16).hexdigest()

    async def _ask_server(self, name: str, password: str, client: Peer, limits: Mapping[str, int]) -> str | None:
        """Return the name of the user, None for a wrong password. Raises ``PageRefused`` where nobody knows."""
        server = self.server
        is_possible = 0 < len(name) <= MAX_NAME_LENGTH and 0 < len(password) <= MAX_PASSWORD_LENGTH
        if server is None or not is_possible or not (name + password).isprintable():
            return None
        if self._waiting >= _MAX_WAITING:
            self._failures.take_back(limits)
            raise PageRefused(503, "login_away")
        self._waiting += 1
        try:
            return await server.find_user(name, password, client.address or None)
        except LoginUnavailable as error:
            self._failures.take_back(limits)
            _log.error("page: no user can log in: %s", error)
            raise PageRefused(503, "login_away") from error
        finally:
            self._waiting -= 1

    def _form_page(
        self, request: web.BaseRequest, fields: Mapping[str, str], refused: PageRefused | None = None
    ) -> web.Response:
        values = {
            "link": "" if refused else fields.get("link", ""),
            "user": fields.get("user", "")[:MAX_NAME_LENGTH],
            "target": USER_AREA.local_target(fields.get("to", "")),
            "has_password": self.server is not None,
            "refusal": refused.text if refused else "",
        }
        return self._render(request, Page("login.html", values, refused.status if refused else 200))

    def _render(self, request: web.BaseRequest, page: Page) -> web.Response:
        language = choose_language(request.headers, USER_AREA.languages)
        return html_response(self.renderer.render(page, None, language=language), page.status)
