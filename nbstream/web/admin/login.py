"""Logging in: with a one-time link or with a password of the listener.

Rules: no peer needs less than that, because a local user is no administrator. Wrong passwords are limited as at
the APIs. Whoever knows the password may begin sixty sessions a minute, since each stays in Redis for hours. Links
are not limited: nobody can guess one, and so nobody can lock out whoever has one.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import logging
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from nbstream.errors import StoreUnavailable
from nbstream.logs import event_fields
from nbstream.server.http.access import Role, TooManyFailures, client_of, failure_sources, is_equal
from nbstream.server.http.responses import RequestRefused
from nbstream.store.logins import SESSION_SECONDS, is_token, password_proof, token_hash
from nbstream.web.admin.forms import read_query, receive_form
from nbstream.web.admin.requests import ADMIN_AREA, LOGIN_PATH, PREFIX, Page, PageRefused, Session
from nbstream.web.admin.responses import html_response, read_cookie, redirect, set_cookie

if TYPE_CHECKING:
    from aiohttp import web

    from nbstream.server.connections import Network, Peer
    from nbstream.server.http.access import PasswordCheck, Passwords
    from nbstream.server.http.bodies import BodyReader
    from nbstream.store.logins import AttemptCounts, PageSessionStore, StoredLogin
    from nbstream.web.admin.metrics import RequestMetrics
    from nbstream.web.admin.rendering import PageRenderer


_MAX_NAME_LENGTH = 100
_MAX_LOGINS = 60  # a minute and client
_TOO_MANY = "There were too many attempts. Please wait for a minute."


_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True, slots=True)
class Login(ABC):
    """The form to log in to a page, and its answer; administrators and users have different ones.

    ``counts`` are those of all processes. ``allow_from`` are the networks whose peers may name the clients that
    they ask for.
    """

    counts: AttemptCounts
    allow_from: Sequence[Network]
    bodies: BodyReader
    renderer: PageRenderer
    metrics: RequestMetrics

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.Response:
        """Answer a request of the login. Raises ``RequestRefused``."""
        if request.method not in {"GET", "HEAD", "POST"}:
            raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD,POST", close=True)
        try:
            if request.method == "POST":
                form = await receive_form(request, self.bodies)
                return await self._log_in(request, {name: values[0] for name, values in form.items()}, peer)
            query = read_query(request.rel_url.raw_query_string)
        except PageRefused as refused:
            raise RequestRefused(refused.status, refused.text, close=True) from refused
        except StoreUnavailable as error:
            raise RequestRefused(503, "Redis cannot be reached: nobody can log in now.") from error
        # The link is used by the form only: what fetches links, such as a preview, must not use it up.
        return self._form_page(request, query)

    @abstractmethod
    def ask_to_log_in(self, request: web.BaseRequest) -> web.Response:
        """Answer a request of somebody who has not logged in."""

    @abstractmethod
    async def _log_in(self, request: web.BaseRequest, form: Mapping[str, str], peer: Peer) -> web.Response:
        """Begin a session with what the form has, or say why not. Raises ``StoreUnavailable``."""

    @abstractmethod
    def _form_page(
        self, request: web.BaseRequest, fields: Mapping[str, str], refused: PageRefused | None = None
    ) -> web.Response:
        """Return the form, with what was given, or with why nobody was logged in."""


@dataclass(eq=False, kw_only=True, slots=True)
class AdminLogin(Login):
    """The login of administrators: with a one-time link, which is used up, or with a password."""

    store: PageSessionStore
    passwords: PasswordCheck

    def ask_to_log_in(self, request: web.BaseRequest) -> web.Response:
        """Send whoever wants to see a page to the form, and refuse everything else with it."""
        if request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("Accept", ""):
            target = ADMIN_AREA.local_target(request.rel_url.raw_path_qs)
            return redirect(f"{LOGIN_PATH}?to={quote(target, safe='/')}")
        ended = PageRefused(403, "You have not logged in, or your session has ended. Nothing was changed.")
        response = self._form_page(request, {}, ended)
        response.headers["X-Login"] = "needed"  # for the scripts of the page
        response.force_close()  # the rest of a form is not read
        return response

    async def _log_in(self, request: web.BaseRequest, form: Mapping[str, str], peer: Peer) -> web.Response:
        fields = tuple(request.headers.items())
        client = client_of(peer, fields, self.allow_from)
        method = "link" if "link" in form else "password"
        try:
            sources = failure_sources(peer, fields, self.allow_from)
            token = await self._begin_session(form, client, sources)
        except PageRefused as refused:
            self.metrics.login_tried(method, accepted=False)
            # Programs such as fail2ban read the address of the peer: whoever says that it is a proxy may lie.
            compared = "not compared" if refused.status == 429 else "wrong"
            told = {"peer": str(peer), "path": LOGIN_PATH, "password": "none" if method == "link" else compared}
            if client != peer:
                told["client"] = str(client)
            _log.warning("http: a request was refused", extra=event_fields(**told))
            return self._form_page(request, form, refused)
        self.metrics.login_tried(method, accepted=True)
        _log.info("page: somebody logged in", extra=event_fields(client=str(client)))
        # No redirect: a browser does not send the new cookie with one that began on another site.
        page = Page("logged_in.html", {"target": ADMIN_AREA.local_target(form.get("to", ""))})
        response = html_response(self.renderer.render(page, None))
        set_cookie(response, request, ADMIN_AREA.session_cookie, token, SESSION_SECONDS, path=PREFIX)
        return response

    async def _begin_session(self, form: Mapping[str, str], client: Peer, sources: Mapping[str, int]) -> str:
        """Return the token of a new session. Raises ``PageRefused`` for what nobody may log in with."""
        if "link" in form:
            login = await self.store.use_link(form["link"])
            if login is None:
                raise PageRefused(403, "This link was used before, or it is older than ten minutes.")
            return await self.store.create_session(login.role, f"page {login.name}")
        password = form.get("password", "")
        try:
            role = await self.passwords.role_of([password], sources)
        except TooManyFailures:
            raise PageRefused(429, _TOO_MANY) from None
        if role is None:
            raise PageRefused(403, "This is not the password.")
        (logins,) = await self.counts.add([f"{next(iter(sources))} logins"])
        if logins.count > _MAX_LOGINS:
            raise PageRefused(429, _TOO_MANY)
        name = login_name(form.get("name", ""), str(client))
        return await self.store.create_session(role, f"page {name}", password)

    def _form_page(
        self, _: web.BaseRequest, fields: Mapping[str, str], refused: PageRefused | None = None
    ) -> web.Response:
        link = fields.get("link", "")
        values = {
            "link": link if is_token(link) and not refused else "",
            "target": ADMIN_AREA.local_target(fields.get("to", "")),
            "has_password": self.passwords.passwords.any,
            "refusal": refused.text if refused else "",
        }
        html = self.renderer.render(Page("login.html", values), None)
        return html_response(html, refused.status if refused else 200)


def login_name(offered: str, client: str) -> str:
    """Return the name of who logs in with a password: what was typed as one word, else the address of the client.

    A name of one word cannot be mistaken for that of a user of this machine, which ``nbstream ui`` gives.
    """
    words = "".join(c if c.isprintable() else " " for c in offered[: 10 * _MAX_NAME_LENGTH]).split()
    return "-".join(words)[:_MAX_NAME_LENGTH] or client


def session_token(request: web.BaseRequest, cookie: str) -> str:
    """Return the token in the cookie of that name of a request; empty where it has none."""
    token = read_cookie(request, cookie)
    return token if is_token(token) else ""


# The sessions of the page: who sends a request, by the cookie.
#
# Rules: each request asks Redis, so that a logout ends a session in all processes at once. Where Redis is away,
# a session that this process has confirmed within the last minutes goes on, for reading alone. A session that
# began with a password ends where that password no longer gives its role. What a form or a cookie must prove is
# an HMAC with the token of the session as its key.

_ASK_SECONDS = 1.0  # then what is known is shown: a page should not wait as long as a lesson may
_TRUSTED_SECONDS = 600.0
_MAX_KNOWN = 100


@dataclass(frozen=True, slots=True)
class _KnownSession:
    """A session that was confirmed at ``confirmed_at``, by the monotonic clock."""

    login: StoredLogin
    confirmed_at: float

    @property
    def is_trusted(self) -> bool:
        return time.monotonic() - self.confirmed_at < _TRUSTED_SECONDS and time.time() < self.login.ends_at


class PageSessions:
    """The sessions in Redis, and those that this process has seen lately; ``passwords`` are those of now."""

    def __init__(self, store: PageSessionStore, passwords: Passwords) -> None:
        self._store = store
        self._passwords = passwords
        self._known: OrderedDict[str, _KnownSession] = OrderedDict()

    async def find(self, token: str) -> Session | None:
        """Return the session, None where there is none; raises ``StoreUnavailable`` where nobody knows."""
        key = token_hash(token)
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                login = await self._store.find_session(token)
        except (StoreUnavailable, TimeoutError) as error:
            known = self._known.get(key)
            if known is None or not known.is_trusted:
                raise StoreUnavailable("the sessions of the page cannot be looked up") from error
            return self._make_session(known.login, token, is_verified=False)
        self._known.pop(key, None)
        if login is None:
            return None
        self._known[key] = _KnownSession(login, time.monotonic())
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        return self._make_session(login, token)

    async def end(self, token: str) -> None:
        """End the session, in all processes. Raises ``StoreUnavailable``."""
        await self._store.end_session(token)
        self._known.pop(token_hash(token), None)

    def _make_session(self, login: StoredLogin, token: str, *, is_verified: bool = True) -> Session | None:
        try:
            role = Role(login.role)
        except ValueError:  # one of another version
            return None
        if login.password_proof:
            password = self._passwords.of_role(role)
            if password is None or not is_equal(login.password_proof, password_proof(token, password)):
                return None
        return Session(role, login.name, csrf_token(token), is_verified)


def csrf_token(token: str) -> str:
    """Return what each form of the session proves itself with."""
    return _proof(token, b"form")


def sign(token: str, text: str) -> str:
    """Return ``text`` as the value of a cookie that only this session can have made.

    A reply of another server may be in it: what is no character becomes ``?``.
    """
    encoded = base64.urlsafe_b64encode(text.encode("utf-8", "replace")).decode()
    return f"{encoded}.{_proof(token, b'cookie ' + encoded.encode())}"


def unsign(token: str, signed: str) -> str:
    """Return the text that ``sign`` signed for this session; empty where it did not."""
    encoded, _, proof = signed.partition(".")
    expected = _proof(token, b"cookie " + encoded.encode("utf-8", "surrogateescape"))
    if not is_equal(proof, expected):
        return ""
    return base64.urlsafe_b64decode(encoded).decode()


def _proof(token: str, what: bytes) -> str:
    return hmac.new(token.encode("utf-8", "surrogateescape"), what, hashlib.sha256).hexdigest()
