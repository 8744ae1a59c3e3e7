"""The page on a real listener with real sessions, and a browser without scripts that uses it."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from redis.asyncio import Redis
from yarl import URL

from nbstream.metrics import MetricsRegistry
from nbstream.server.http.access import PasswordCheck, Passwords, Role
from nbstream.server.http.listener import HttpListener
from nbstream.server.http.responses import BodyReader
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.store.logins import AttemptCounts, PageSessionStore
from nbstream.store.model.keys import ModelKeys
from nbstream.web.admin.login import AdminAuthenticator
from nbstream.web.areas import ADMIN_AREA
from nbstream.web.forms import MAX_FORM_BYTES
from nbstream.web.login import Login
from nbstream.web.metrics import RequestMetrics
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import View
from nbstream.web.responses import cookie_name
from nbstream.web.server import WebServer
from nbstream.web.sessions import Sessions, csrf_token
from tests.harness.http_listener import free_socket
from tests.harness.waiting import DEADLINE_SECONDS

MODEL = "page"


@dataclass(frozen=True)
class Response:
    """What the listener answered."""

    status: int
    headers: Mapping[str, str]
    text: str
    cookies: Mapping[str, Mapping[str, object]]

    @property
    def target(self) -> str:
        """Where a redirect leads."""
        return self.headers["Location"]


class Browser:
    """A browser with its cookies; ``fields`` are header fields of all its requests."""

    def __init__(self, session: aiohttp.ClientSession, address: str, **fields: str) -> None:
        self._session = session
        self._address = address
        self._fields = fields
        self.csrf = ""
        self.session_token = ""

    async def ask(self, method: str, path: str, data: object = None, **fields: str) -> Response:
        """Make one request; header names have _ for -."""
        headers = {name.replace("_", "-"): value for name, value in {**self._fields, **fields}.items()}
        url = URL(f"http://{self._address}{path}", encoded=True)
        async with self._session.request(method, url, data=data, headers=headers, allow_redirects=False) as answer:
            cookies = {name: {"value": morsel.value, **morsel} for name, morsel in answer.cookies.items()}
            return Response(answer.status, answer.headers, await answer.text(), cookies)

    async def get(self, path: str, **fields: str) -> Response:
        """Get a page."""
        return await self.ask("GET", path, **{"Accept": "text/html", **fields})

    async def post(self, path: str, form: Mapping[str, str | Sequence[str]], **fields: str) -> Response:
        """Send a form of a page of this host, with the token of the session."""
        values: list[tuple[str, str]] = [("csrf", self.csrf)]
        for name, value in form.items():
            values += [(name, each) for each in ([value] if isinstance(value, str) else value)]
        own = {"Origin": f"http://{self._address}", **self._fields}
        return await self.ask("POST", path, aiohttp.FormData(values), **{**own, **fields})

    def use_session(self, token: str) -> None:
        """Take the cookie of a session."""
        name = cookie_name(ADMIN_AREA.session_cookie, self._address)
        self._session.cookie_jar.update_cookies({name: token}, URL(f"http://{self._address}/ui/"))
        self.session_token = token
        self.csrf = csrf_token(token)


@dataclass(frozen=True)
class PageListener:
    """A running listener with a page; its sessions are in Redis."""

    listener: HttpListener
    address: str
    store: PageSessionStore

    def cookie(self, name: str) -> str:
        """Return the name of a cookie in the browsers of this listener."""
        return cookie_name(name, self.address)

    @asynccontextmanager
    async def browser(self, role: Role | None = None, **fields: str) -> AsyncIterator[Browser]:
        """Open a browser, which has logged in with this role if there is one."""
        jar = aiohttp.CookieJar(unsafe=True)  # that of a host without a name
        timeout = aiohttp.ClientTimeout(DEADLINE_SECONDS)
        async with aiohttp.ClientSession(cookie_jar=jar, timeout=timeout) as session:
            browser = Browser(session, self.address, **fields)
            if role is not None:
                browser.use_session(await self.store.create_session(role, "page tester"))
            yield browser


def make_web_server(
    client: Redis,
    *views: View,
    passwords: Passwords = Passwords(),  # noqa: B008 - frozen
    registry: MetricsRegistry | None = None,
) -> WebServer:
    """Return a server with these views for administrators."""
    store, counts = PageSessionStore(client, ModelKeys(MODEL)), AttemptCounts(client, ModelKeys(MODEL))
    bodies = BodyReader(ListenerLimits(MAX_FORM_BYTES), BytesInFlight(1 << 20), "a form")
    renderer = PageRenderer()
    area = ADMIN_AREA._replace(
        views=views,
        authenticator=AdminAuthenticator(store, PasswordCheck(passwords, counts)),
        metrics=RequestMetrics.of_administrators(registry or MetricsRegistry()),
    )
    login = Login(
        sessions=Sessions(store, passwords), counts=counts, allow_from=(), bodies=bodies, renderer=renderer
    )
    return WebServer([area], login=login, bodies=bodies, renderer=renderer)


@asynccontextmanager
async def open_page(
    client: Redis, *views: View, limits: ListenerLimits | None = None, **options: Any
) -> AsyncIterator[PageListener]:
    """Run a listener with a page of these views; ``options`` are those of ``make_web_server``."""
    listener = HttpListener((), limits=limits, pages=make_web_server(client, *views, **options))
    listening, address = free_socket()
    await listener.start(listening)
    try:
        yield PageListener(listener, address, PageSessionStore(client, ModelKeys(MODEL)))
    finally:
        await listener.drain(0)


def title_of(html: str) -> str:
    """Return the title of a page."""
    found = re.search(r"<title>(.*?)</title>", html)
    assert found
    return found[1]
