"""The web interface over HTTP: requests below the areas become questions to views, and their answers responses.

Rules: a view is for people who have logged in to its area, unless its route says otherwise. A request that changes
something is a POST of an origin on this host. Of who has logged in, it needs the role for teaching and the token
of the session; of who has not, a signed link. There are no scripts.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from aiohttp import web

from nbstream.errors import NbstreamError, StoreUnavailable
from nbstream.mail.visible_text import visible_text
from nbstream.server.api_json import HttpProblem
from nbstream.server.http.access import is_equal
from nbstream.server.http.listener import RouteTable, last_segment
from nbstream.server.http.responses import RequestRefused, error_problem
from nbstream.server.message_service import REQUEST_ERRORS
from nbstream.store.cancellation import cancel_and_wait
from nbstream.web.areas import FAVICON_PATH, PREFIX
from nbstream.web.forms import read_query, receive_form, well_formed
from nbstream.web.requests import NOBODY, Page, PageRefused, PageRequest, Redirect
from nbstream.web.responses import (
    SECURITY_FIELDS,
    choose_language,
    html_response,
    read_cookie,
    redirect,
    set_cookie,
)
from nbstream.web.sessions import session_token, sign, unsign

if TYPE_CHECKING:
    from nbstream.server.connections import Peer
    from nbstream.server.http.responses import BodyReader
    from nbstream.web.areas import Area
    from nbstream.web.login import Login
    from nbstream.web.rendering import PageRenderer
    from nbstream.web.requests import Answer, PageRoute, Session

_log = logging.getLogger(__name__)

_FLASH_COOKIE = "nbstream_flash"
_FLASH_SECONDS = 60
_MAX_FLASH_LENGTH = 500  # four bytes a character at most: a cookie may have 4096
_MAX_RUNNING = 8  # requests of a session at a time: a browser has six connections
_STORE_AWAY = "Redis cannot be reached now."
_STATIC_FOLDER = Path(__file__).with_name("static")
_STATIC_FILES = frozenset({"page.css", "icon.svg"})  # no other path of a request reaches the file system
_TOO_MANY_REQUESTS = "Too many requests of your session are at work. Please try again in a moment."


class WebServer:
    """Answers all requests of the areas."""

    def __init__(
        self,
        areas: Sequence[Area],
        *,
        login: Login,
        bodies: BodyReader,
        renderer: PageRenderer,
    ) -> None:
        self._areas = areas
        self._login = login
        self._sessions = login.sessions
        self._bodies = bodies
        self._renderer = renderer
        self._routes = RouteTable(
            (route.method, route.path, route) for area in areas for view in area.views for route in view.routes()
        )
        self._open_parents = {
            route.path.removesuffix("{id}")
            for area in areas
            for view in area.views
            for route in view.routes()
            if route.is_open
        }
        self._running: Counter[str] = Counter()
        self._preparing: asyncio.Task[None] | None = None

    async def close(self) -> None:
        """End what is done between requests; no request comes any more."""
        if self._preparing is not None:
            await cancel_and_wait(self._preparing)

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to an area."""
        return any(area.serves(path) for area in self._areas)

    def _area_of(self, path: str) -> Area:
        return next(area for area in self._areas if area.serves(path))

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.StreamResponse:
        """Answer a request. What it raises ``refusal`` makes a page of, once it is an ``HttpProblem``."""
        if self._preparing is None:  # before the first answer, and not at the start: most processes show no page
            self._preparing = asyncio.create_task(self._renderer.compile_templates(), name="page: templates")
        await asyncio.wait([self._preparing])  # where it failed, requests compile what they need
        area = self._area_of(request.path)
        answer = await self._answer(area, request, peer)
        if area.metrics:
            area.metrics.answered(answer.status)
        return answer

    async def _answer(self, area: Area, request: web.BaseRequest, peer: Peer) -> web.StreamResponse:
        path = request.path
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
            return _static_file(area, request)
        if area.authenticator and path in {area.login_path, area.mailed_login}:
            return await self._login.answer(area, request, peer)
        if f"{path.rpartition('/')[0]}/" in self._open_parents:
            return await self._answer_or_refuse(area, request, "", NOBODY)
        if not area.authenticator:
            raise RequestRefused(404, "Not Found", close=True)
        token = session_token(request, area.session_cookie)
        session = await self._find_session(token, area)
        if session is None:
            return self._login.ask_to_log_in(area, request)
        return await self._answer_or_refuse(area, request, token, session)

    async def _answer_or_refuse(
        self, area: Area, request: web.BaseRequest, token: str, session: Session
    ) -> web.Response:
        """Answer a request of a session, whose navigation a refusal has as well."""
        try:
            return await self._answer_session(area, request, token, session)
        except PageRefused as refused:
            problem = HttpProblem(refused.status, refused.text)
            return self._refusal_page(request, problem, session)
        except RequestRefused as refused:
            return self._refusal_page(request, refused.problem, session, close=refused.close, allow=refused.allow)
        except NbstreamError as error:
            if not isinstance(error, REQUEST_ERRORS):
                _log.exception("http: a request failed")
            problem = error_problem(error)
            if isinstance(error, StoreUnavailable):
                problem = HttpProblem(problem.status, _STORE_AWAY)
            return self._refusal_page(request, problem, session)

    async def _find_session(self, token: str, area: Area) -> Session | None:
        try:
            return await self._sessions.find(token, area) if token else None
        except StoreUnavailable as error:
            raise RequestRefused(503, "Redis cannot be reached: nobody can log in now.", close=True) from error

    def refusal(
        self, request: web.BaseRequest, problem: HttpProblem, *, close: bool, allow: str | None
    ) -> web.Response:
        """Return the page that says why a request is refused."""
        if metrics := self._area_of(request.path).metrics:
            metrics.answered(problem.status)
        return self._refusal_page(request, problem, None, close=close, allow=allow)

    def _refusal_page(
        self,
        request: web.BaseRequest,
        problem: HttpProblem,
        session: Session | None,
        *,
        close: bool = False,
        allow: str | None = None,
    ) -> web.Response:
        area, status, detail = self._area_of(request.path), problem.status, problem.detail
        # Users are told the same of all errors with a status.
        is_told = area.prefix == PREFIX and detail != HTTPStatus(status).phrase
        values = {
            "status": status,
            "detail": visible_text(f"{detail[:1].upper()}{detail[1:]}") if is_told else "",
        }
        language = choose_language(request.headers, area.languages)
        page_request = PageRequest(session) if session else None
        html = self._renderer.render(Page("error.html", values), page_request, area, language=language)
        response = html_response(html, problem.status)
        if allow is not None:
            response.headers["Allow"] = allow
        if close:
            response.force_close()
        return response

    async def _answer_session(
        self, area: Area, request: web.BaseRequest, token: str, session: Session
    ) -> web.Response:
        if request.path == area.logout_path:
            return await self._log_out(area, request, token, session)
        route = self._routes.find(request.method, request.path)
        page_request = await self._read_request(area, request, route, session)
        answer = await self._ask_view(route, page_request, token)
        match answer:
            case Page():
                return await self._show_page(area, request, answer, page_request, token)
            case Redirect():
                response = redirect(answer.path)
                if answer.flash:
                    flash = sign(token, answer.flash[:_MAX_FLASH_LENGTH])
                    set_cookie(response, request, _FLASH_COOKIE, flash, _FLASH_SECONDS, path=area.prefix)
                return response

    async def _ask_view(self, route: PageRoute, page_request: PageRequest, token: str) -> Answer:
        """Return the answer of the view; who goes away leaves work behind, so each session has a bound.

        An open page has no session. All who ask for one are not one of them.
        """
        if page_request.session is NOBODY:
            return await route.handler(page_request)
        with _counted(self._running, token, _MAX_RUNNING, _TOO_MANY_REQUESTS):
            return await route.handler(page_request)

    async def _read_request(
        self, area: Area, request: web.BaseRequest, route: PageRoute, session: Session
    ) -> PageRequest:
        if request.method == "POST" and not route.is_open and not session.may_change:
            raise PageRefused(
                403, "Nothing was changed: you have logged in to read only. Log out, and log in for teaching."
            )
        return PageRequest(
            session,
            well_formed(last_segment(request)) if route.path.endswith("{id}") else "",
            read_query(request.rel_url.raw_query_string),
            await self._read_form(request, session) if request.method == "POST" else {},
            choose_language(request.headers, area.languages),
        )

    async def _read_form(self, request: web.BaseRequest, session: Session) -> Mapping[str, Sequence[str]]:
        form = await receive_form(request, self._bodies)
        if session is not NOBODY and not is_equal(form.get("csrf", ("",))[0], session.csrf_token):
            raise PageRefused(
                403, "Nothing was changed: this form is not valid any more. Reload the page, and send it again."
            )
        return form

    async def _show_page(
        self, area: Area, request: web.BaseRequest, page: Page, page_request: PageRequest, token: str
    ) -> web.Response:
        flash = unsign(token, read_cookie(request, _FLASH_COOKIE)) if token else ""  # anybody could sign with none
        html = self._renderer.render(
            page,
            page_request,
            area,
            path=request.path,
            flash=visible_text(flash),
            language=page_request.language,
        )
        response = html_response(html, page.status)
        if flash:
            set_cookie(response, request, _FLASH_COOKIE, "", 0, path=area.prefix)
        return response

    async def _log_out(self, area: Area, request: web.BaseRequest, token: str, session: Session) -> web.Response:
        if request.method != "POST":
            raise RequestRefused(405, "Method Not Allowed", allow="POST")
        await self._read_form(request, session)
        await self._sessions.store.end_session(token)
        _log.info("page: logout")
        response = redirect(area.login_path)
        set_cookie(response, request, area.session_cookie, "", 0, path=area.prefix)
        return response


def _static_file(area: Area, request: web.BaseRequest) -> web.FileResponse:
    """Return a file that browsers keep, and ask for again by its ETag."""
    name = request.path.removeprefix(area.static_prefix)
    if name not in _STATIC_FILES:
        raise RequestRefused(404, "Not Found", close=True)
    if request.method not in {"GET", "HEAD"}:
        raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD", close=True)
    return web.FileResponse(_STATIC_FOLDER / name, headers={**SECURITY_FIELDS, "Cache-Control": "no-cache"})


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
