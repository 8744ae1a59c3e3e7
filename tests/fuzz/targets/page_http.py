"""The page over HTTP: whatever cookies, forms, addresses and fields come, each answer is one of our own.

Tokens stand for themselves here, and nothing is remembered: the same request has the same answer.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Sequence

from redis.asyncio import Redis

from nbstream.metrics import MetricsRegistry
from nbstream.server.http.access import PasswordCheck, Passwords
from nbstream.server.http.listener import HttpListener
from nbstream.server.http.responses import BodyReader
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.store.logins import (
    AttemptCount,
    AttemptCounts,
    PageSessionStore,
    StoredLogin,
    is_token,
)
from nbstream.store.model.keys import ModelKeys
from nbstream.web.admin.login import AdminAuthenticator
from nbstream.web.areas import ADMIN_AREA
from nbstream.web.forms import MAX_FORM_BYTES
from nbstream.web.login import Login
from nbstream.web.metrics import RequestMetrics
from nbstream.web.rendering import PageRenderer
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, Redirect, View
from nbstream.web.responses import SECURITY_FIELDS
from nbstream.web.server import WebServer
from nbstream.web.sessions import Sessions, csrf_token, sign
from tests.fuzz.http_exchange import HttpExchange, framed
from tests.fuzz.page_elements import assert_own_elements
from tests.fuzz.target import FuzzTarget

_TEACHER, _READER, _LINK = ("t" * 43), ("r" * 43), ("l" * 43)
_DOCUMENTED = frozenset({200, 303, 304, 400, 403, 404, 405, 413, 415, 429, 503})
_STATUS_LINE = re.compile(rb"HTTP/1\.1 (\d{3}) [ -~]+\r\n")
_SET_COOKIE = re.compile(
    r"nbstream_(session|flash)=[\w.=\"-]*; HttpOnly; Max-Age=\d+; Path=/ui/; SameSite=Strict(; Secure)?"
)
_TARGETS = re.compile(r"/ui/[!-~]*")


class _Sessions(PageSessionStore):
    """Knows two sessions and one link, and counts nothing."""

    def __init__(self) -> None:
        super().__init__(Redis(), ModelKeys("fuzz"))

    async def use_link(self, token: str) -> StoredLogin | None:
        return StoredLogin("read", "ann", 4e9) if token == _LINK else None

    async def create_session(self, role: str, name: str, password: str | None = None) -> str:
        assert name.startswith("page ")
        assert name.isprintable()
        return _TEACHER

    async def find_session(self, token: str) -> StoredLogin | None:
        assert is_token(token)
        role = {_TEACHER: "teach", _READER: "read"}.get(token)
        return StoredLogin(role, "page ann", 4e9) if role else None

    async def end_session(self, token: str) -> None:
        assert token in {_TEACHER, _READER}


class _Counts(AttemptCounts):
    """Counts nothing."""

    def __init__(self) -> None:
        super().__init__(Redis(), ModelKeys("fuzz"))

    async def add(self, sources: Iterable[str]) -> Sequence[AttemptCount]:
        assert all(0 < len(source) < 100 for source in sources)
        return [AttemptCount(1, 60.0) for _ in sources]


class _View(View):
    """Says again what it was asked."""

    def routes(self) -> Iterable[PageRoute]:
        return (
            PageRoute("GET", "/ui/", self._show),
            PageRoute("GET", "/ui/messages/{id}", self._show),
            PageRoute("POST", "/ui/messages/{id}", self._change),
        )

    async def _show(self, request: PageRequest) -> Answer:
        return Page("error.html", {"status": 403, "detail": request.session.name})

    async def _change(self, request: PageRequest) -> Answer:
        assert request.form_value("csrf") == csrf_token(_TEACHER)
        return Redirect("/ui/", "".join(request.form.get("text", ())))


def _start() -> HttpExchange:
    passwords, sessions = Passwords("one", "two"), _Sessions()
    bodies = BodyReader(ListenerLimits(MAX_FORM_BYTES), BytesInFlight(1 << 20), "a form")
    renderer = PageRenderer()
    area = ADMIN_AREA._replace(
        views=[_View()],
        authenticator=AdminAuthenticator(sessions, PasswordCheck(passwords)),
        metrics=RequestMetrics.of_administrators(MetricsRegistry()),
    )
    login = Login(
        sessions=Sessions(sessions, passwords), counts=_Counts(), allow_from=(), bodies=bodies, renderer=renderer
    )
    page = WebServer([area], login=login, bodies=bodies, renderer=renderer)
    return HttpExchange(asyncio.Runner(), HttpListener((), pages=page))


_exchange = _start()


def _check(data: bytes) -> None:
    answer = _exchange.answer(framed(data))
    head, _, body = answer.partition(b"\r\n\r\n")
    status = _STATUS_LINE.match(head + b"\r\n")
    if status is None:  # aiohttp has refused it, or nothing came
        return
    assert int(status[1]) in _DOCUMENTED, head
    lines = head.decode("ascii").split("\r\n")[1:]
    fields = [(name.lower(), value) for name, _, value in (line.partition(": ") for line in lines)]
    named = dict(fields)
    if "content-security-policy" not in named:  # not an answer of the page
        assert int(status[1]) >= 400
        return
    for name, value in SECURITY_FIELDS.items():
        assert named[name.lower()] == value
    for name, value in fields:
        if name == "set-cookie":
            assert _SET_COOKIE.fullmatch(re.sub(r"expires=[^;]*; ", "", value)), value
    assert _TARGETS.fullmatch(named.get("location", "/ui/"))
    if named.get("content-type", "").startswith("text/html") and body:
        assert_own_elements(body.decode())


_OWN = b"\nHost: x\nSec-Fetch-Site: same-origin\nContent-Type: application/x-www-form-urlencoded\n"
_COOKIE = b"Cookie: nbstream_session=" + _TEACHER.encode()
_CSRF = b"csrf=" + csrf_token(_TEACHER).encode()

TARGET = FuzzTarget(
    _check,
    (
        b"GET /ui/?then=now\nHost: x\n"
        + _COOKIE
        + b"; nbstream_flash="
        + sign(_TEACHER, "caf\xe9 <b>").encode()
        + b"\n\n",
        b"GET /ui/messages/%3Cb%3E%ff\nHost: x\n" + _COOKIE.replace(b"=tt", b'="tt\\"; $Path=/ui/;,') + b"\n\n",
        b"POST /ui/messages/a"
        + _OWN
        + _COOKIE
        + b"\n\n"
        + _CSRF
        + b"&text=%0d%0aSet-Cookie:%20a=b&text=%ed%a0%80\xff",
        b"POST /ui/messages/a" + _OWN + _COOKIE.replace(b"t", b"r") + b"\n\n" + _CSRF,
        b"POST /ui/login"
        + _OWN
        + b"X-Forwarded-For: 10.1.1.1, ::ffff:1.2.3.4%x\n\nlink="
        + _LINK.encode()
        + b"&to=/ui/a?b",
        b"POST /ui/login\nHost: x\nOrigin: https://x\nX-Forwarded-For: fe80::1%\xff\nX-Forwarded-Proto: https\n"
        b"Content-Type: application/x-www-form-urlencoded\n\npassword=two&name=a%00%e2%80%ae+b&to=//evil",
        b"POST /ui/logout" + _OWN + _COOKIE + b"\n\n" + _CSRF,
        b"GET /ui/login?link=" + _LINK.encode() + b'&to=/ui/"><svg onload=x>\nHost: x\n\n',
        b"GET /ui/outcome?a=%ff&%22=%00\nHost: x\n" + _COOKIE + b"\n\n",
        b"GET /ui/static/keys.js?1\nHost: x\nIf-None-Match: *\nAccept-Encoding: gzip;q=0\n\n",
        b"GET /ui/a?b#c\nHost: x\nAccept: text/html\n\n",
        b"PUT /ui/static/../login\nHost: [\nOrigin: http://[\n\n",
    ),
    words=(
        *(
            _COOKIE,
            b"nbstream_flash=",
            _CSRF,
            b"\nX-Forwarded-For: ",
            b"\nX-Forwarded-Proto: https",
            b"%00",
            b"%ff",
        ),
        *(
            b"\nOrigin: http://x",
            b"\nSec-Fetch-Mode: navigate",
            b"%e2%80%ae",
            b"&link=" + _LINK.encode(),
            b"&to=/ui/",
        ),
        *(b"password=one", b"password=two", b"name=", b"\nX-Fragment: 1", b"\nIf-None-Match: ", b"::1", b'"'),
    ),
    mutations=150,
)
