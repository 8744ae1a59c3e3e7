"""A page over HTTP: requests below its prefix become questions to views, and their answers become responses.

Rules: the views are for people who have logged in. A request that changes something is a POST, and needs the role
for teaching, a session that Redis has just confirmed, the token of the session, and an origin on this host.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from aiohttp import web

from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.mail.visible_text import visible_text
from nbstream.server.api_json import HttpProblem
from nbstream.server.http.access import is_equal
from nbstream.server.http.listener import RouteTable, last_segment
from nbstream.server.http.responses import RequestRefused, error_problem
from nbstream.server.message_service import is_request_error
from nbstream.store.cancellation import cancel_and_wait
from nbstream.web.admin.forms import read_query, receive_form, well_formed
from nbstream.web.admin.login import session_token, sign, unsign
from nbstream.web.admin.requests import (
    FAVICON_PATH,
    Page,
    PageRefused,
    PageRequest,
    Redirect,
)
from nbstream.web.admin.responses import (
    SECURITY_FIELDS,
    html_response,
    read_cookie,
    redirect,
    set_cookie,
)

if TYPE_CHECKING:
    from nbstream.server.connections import Peer
    from nbstream.server.http.bodies import BodyReader
    from nbstream.web.admin.login import Login
    from nbstream.web.admin.metrics import RequestMetrics
    from nbstream.web.admin.rendering import PageRenderer
    from nbstream.web.admin.requests import Answer, PageArea, PageRoute, Session, View
    from nbstream.web.admin.static_files import StaticFiles

_log = logging.getLogger(__name__)

_FLASH_COOKIE = "nbstream_flash"
_MAX_LANGUAGE_FIELD = 500
_QUALITY = re.compile(r"q=([01](?:\.[0-9]{0,3})?)")
_FLASH_SECONDS = 60
_MAX_FLASH_LENGTH = 500  # four bytes a character at most: a cookie may have 4096
_MAX_RUNNING = 8  # requests of a session at a time: a browser has six connections
_STORE_AWAY = "Redis cannot be reached now."
_TOO_MANY_REQUESTS = "Too many requests of your session are at work. Please try again in a moment."


class Sessions(Protocol):
    """Who has logged in to a page."""

    async def find(self, token: str) -> Session | None:
        """Return the session, None where there is none; raises ``StoreUnavailable`` where nobody knows."""

    async def end(self, token: str) -> None:
        """End the session, in all processes. Raises ``StoreUnavailable``."""


class PageServer:
    """Answers all requests of one page."""

    def __init__(  # noqa: PLR0913 - each is named where it is given
        self,
        area: PageArea,
        views: Sequence[View],
        *,
        login: Login,
        sessions: Sessions,
        bodies: BodyReader,
        static_files: StaticFiles,
        renderer: PageRenderer,
        metrics: RequestMetrics,
    ) -> None:
        self._area = area
        self._sessions = sessions
        self._bodies = bodies
        self._static_files = static_files
        self._renderer = renderer
        self._metrics = metrics
        self._login_pages = login
        self._views = views
        self._navigation = [view.navigation for view in views if view.navigation]
        self._routes = RouteTable([route for view in views for route in view.routes()])
        self._running: Counter[str] = Counter()
        self._preparing: asyncio.Task[None] | None = None

    def prepare(self) -> None:
        """Begin to make what the first request would have to wait for; mail does not wait for it."""
        self._preparing = asyncio.create_task(self._renderer.compile_templates(), name="page: templates")

    async def close(self) -> None:
        """End what is done between requests; no request comes any more."""
        if self._preparing is not None:
            await cancel_and_wait(self._preparing)
        for view in self._views:
            await view.close()

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to the page."""
        return self._area.serves(path)

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.Response:
        """Answer a request. What it raises ``refusal`` makes a page of, once it is an ``HttpProblem``."""
        answer = await self._answer(request, peer)
        self._metrics.answered(answer.status)
        return answer

    async def _answer(self, request: web.BaseRequest, peer: Peer) -> web.Response:
        area, path = self._area, request.path
        if path == FAVICON_PATH:
            return redirect(f"{area.static_prefix}icon.svg")
        if not path.startswith(area.prefix):
            return redirect(area.prefix)
        if not passes_csrf_check(request.method, request.headers):
            raise RequestRefused(
                403,
                "This request does not come from a page of this host, or the browser does not say so.",
                close=True,
            )
        if path.startswith(area.static_prefix):
            return self._static_file(request)
        if path in {area.login_path, area.mailed_login}:
            return await self._login_pages.answer(request, peer)
        token = session_token(request, area.session_cookie)
        session = await self._find_session(token)
        if session is None:
            return self._login_pages.ask_to_log_in(request)
        return await self._answer_or_refuse(request, token, session)

    async def _answer_or_refuse(self, request: web.BaseRequest, token: str, session: Session) -> web.Response:
        """Answer a request of a session, whose navigation a refusal has as well."""
        try:
            return await self._answer_session(request, token, session)
        except PageRefused as refused:
            problem = HttpProblem(refused.status, refused.text)
            return self._refusal_page(request, problem, session, says_what_to_do=True)
        except RequestRefused as refused:
            return self._refusal_page(request, refused.problem, session, close=refused.close, allow=refused.allow)
        except NbstreamError as error:
            if not is_request_error(error):
                _log.exception("http: a request failed")
            problem = error_problem(error)
            if isinstance(error, StoreUnavailable):
                problem = HttpProblem(problem.status, _STORE_AWAY)
            return self._refusal_page(request, problem, session)

    async def _find_session(self, token: str) -> Session | None:
        try:
            return await self._sessions.find(token) if token else None
        except StoreUnavailable as error:
            raise RequestRefused(503, "Redis cannot be reached: nobody can log in now.", close=True) from error

    def refusal(
        self, request: web.BaseRequest, problem: HttpProblem, *, close: bool, allow: str | None
    ) -> web.Response:
        """Return the page that says why a request is refused."""
        self._metrics.answered(problem.status)
        return self._refusal_page(request, problem, None, close=close, allow=allow)

    def _refusal_page(
        self,
        request: web.BaseRequest,
        problem: HttpProblem,
        session: Session | None,
        *,
        says_what_to_do: bool = False,
        close: bool = False,
        allow: str | None = None,
    ) -> web.Response:
        status, detail = problem.status, problem.detail
        is_phrase = detail == HTTPStatus(status).phrase
        values = {
            "status": status,
            "detail": "" if is_phrase else visible_text(f"{detail[:1].upper()}{detail[1:]}"),
            "says_what_to_do": says_what_to_do,
        }
        page = Page("error.html", values)
        language = choose_language(request.headers, self._area.languages)
        page_request = PageRequest(session) if session else None
        html = self._renderer.render(page, page_request, self._navigation, language=language)
        response = html_response(html, problem.status)
        if allow is not None:
            response.headers["Allow"] = allow
        if close:
            response.force_close()
        return response

    async def _answer_session(self, request: web.BaseRequest, token: str, session: Session) -> web.Response:
        if request.path == self._area.logout_path:
            return await self._log_out(request, token, session)
        route = self._routes.find(request.method, request.path)
        page_request = await self._read_request(request, route, session)
        answer = await self._ask_view(route, page_request, token)
        match answer:
            case Page():
                return await self._show_page(request, answer, page_request, token)
            case Redirect():
                response = redirect(answer.path)
                if answer.flash:
                    flash = sign(token, answer.flash[:_MAX_FLASH_LENGTH])
                    set_cookie(response, request, _FLASH_COOKIE, flash, _FLASH_SECONDS, path=self._area.prefix)
                return response

    async def _ask_view(self, route: PageRoute, page_request: PageRequest, token: str) -> Answer:
        """Return the answer of the view; who goes away leaves work behind, so each session has a bound."""
        with _counted(self._running, token, _MAX_RUNNING, _TOO_MANY_REQUESTS):
            return await route.handler(page_request)

    async def _read_request(self, request: web.BaseRequest, route: PageRoute, session: Session) -> PageRequest:
        if not session.role.includes(route.needed_role):
            raise PageRefused(
                403, "Nothing was changed: you have logged in to read only. Log out, and log in for teaching."
            )
        return PageRequest(
            session,
            well_formed(last_segment(request)) if route.path.endswith("{id}") else "",
            read_query(request.rel_url.raw_query_string),
            await self._read_form(request, session) if request.method == "POST" else {},
            request.headers.get("X-Fragment") == "1",
            choose_language(request.headers, self._area.languages),
        )

    async def _read_form(self, request: web.BaseRequest, session: Session) -> Mapping[str, Sequence[str]]:
        if not session.is_verified:
            raise PageRefused(503, _STORE_AWAY)
        form = await receive_form(request, self._bodies)
        if not is_equal(form.get("csrf", ("",))[0], session.csrf_token):
            raise PageRefused(
                403, "Nothing was changed: this form is not valid any more. Reload the page, and send it again."
            )
        return form

    async def _show_page(
        self, request: web.BaseRequest, page: Page, page_request: PageRequest, token: str
    ) -> web.Response:
        flash = "" if page_request.is_fragment else unsign(token, read_cookie(request, _FLASH_COOKIE))
        html = self._renderer.render(
            page,
            page_request,
            self._navigation,
            path=request.path,
            flash=visible_text(flash),
            language=page_request.language,
        )
        response = html_response(html, page.status)
        if flash:
            set_cookie(response, request, _FLASH_COOKIE, "", 0, path=self._area.prefix)
        return response

    async def _log_out(self, request: web.BaseRequest, token: str, session: Session) -> web.Response:
        if request.method != "POST":
            raise RequestRefused(405, "Method Not Allowed", allow="POST")
        await self._read_form(request, session)
        await self._sessions.end(token)
        _log.info("page: somebody logged out")
        response = redirect(self._area.login_path)
        set_cookie(response, request, self._area.session_cookie, "", 0, path=self._area.prefix)
        return response

    def _static_file(self, request: web.BaseRequest) -> web.Response:
        file = self._static_files.find(request.path.removeprefix(self._area.static_prefix))
        if file is None:
            raise RequestRefused(404, "Not Found", close=True)
        if request.method not in {"GET", "HEAD"}:
            raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD", close=True)
        fields = self._static_files.fields(file, request.rel_url.raw_query_string, request.headers)
        if self._static_files.etag in request.headers.get("If-None-Match", ""):
            return web.Response(status=304, headers={**SECURITY_FIELDS, **fields})
        body = file.packed if "Content-Encoding" in fields else file.content
        return web.Response(body=body, headers={**SECURITY_FIELDS, **fields})


def choose_language(headers: Mapping[str, str], languages: Sequence[str]) -> str:
    """Return which of these languages a browser wants most (RFC 9110 12.5.4), the first where it wants none."""
    wanted: list[tuple[float, str]] = []
    for item in headers.get("Accept-Language", "")[:_MAX_LANGUAGE_FIELD].split(","):
        tag, _, parameter = item.partition(";")
        quality = _QUALITY.fullmatch(parameter.strip())
        wanted.append((float(quality[1]) if quality else 1.0, tag.strip().partition("-")[0].lower()))
    best = sorted((each for each in wanted if each[0] > 0), key=lambda each: -each[0])
    return next((tag for _, tag in best if tag in languages), languages[0])


@contextmanager
def _counted(counts: Counter[str], token: str, limit: int, refusal: str) -> Iterator[None]:
    """Count one more of a session until the end of the block. Raises ``PageRefused`` where there are ``limit``."""
    if counts[token] >= limit:
        raise PageRefused(503, refusal)
    counts[token] += 1
    try:
        yield
    finally:
        counts[token] -= 1
        if not counts[token]:
            del counts[token]


# The check for requests that another site forged (CSRF).
#
# Rules: a browser says in ``Sec-Fetch-Site`` or ``Origin`` which site made a request, and no script can change
# that. So a request with the cookie of a session, but of another site, is refused. The field ``Host``
# proves nothing (DNS rebinding): it is compared with ``Origin`` alone.


def passes_csrf_check(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a page of this host made a request, or whoever made it may.

    A POST must be of a page of this host. Whoever follows a link from elsewhere, or types an address, may read;
    the scripts and pictures of another site may not.
    """
    is_own = _is_of_this_host(headers)
    if method == "POST":
        return is_own is True
    is_of_person = headers.get("Sec-Fetch-Mode") == "navigate" or headers.get("Sec-Fetch-Site") == "none"
    return is_own is not False or is_of_person


def _is_of_this_host(headers: Mapping[str, str]) -> bool | None:
    """Return whether a page of this host made the request; None where the browser says nothing of it."""
    site = headers.get("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("Origin")
    if origin is None:
        return None
    try:
        return urlsplit(origin).netloc.lower() == headers.get("Host", "").lower() != ""
    except ValueError:
        return False
