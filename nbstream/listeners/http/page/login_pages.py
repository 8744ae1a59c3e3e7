"""The pages of people who have not logged in."""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from nbstream.errors import StoreUnavailable
from nbstream.listeners.http.access import client_of, failure_sources
from nbstream.listeners.http.page.forms import read_query, receive_form
from nbstream.listeners.http.page.login import login_name
from nbstream.listeners.http.page.requests import Page, PageRefused
from nbstream.listeners.http.page.responses import html_response, read_cookie, redirect, set_cookie
from nbstream.listeners.http.page.routes import LOGIN_PATH, PREFIX
from nbstream.listeners.http.responses import RequestRefused
from nbstream.logs import event_fields
from nbstream.store.logins import SESSION_SECONDS, is_token

if TYPE_CHECKING:
    from collections.abc import Mapping

    from aiohttp import web

    from nbstream.listeners.http.bodies import BodyReader
    from nbstream.listeners.http.page.login import PageLogin
    from nbstream.listeners.http.page.observer import PageObserver
    from nbstream.listeners.http.page.rendering import PageRenderer
    from nbstream.listeners.peers import Peer

_log = logging.getLogger(__name__)

SESSION_COOKIE = "nbstream_session"
_TARGET = re.compile(r"/ui/[\w./?=&%+~-]{0,500}", re.ASCII)


class LoginPages:
    """The form to log in, and its answer."""

    def __init__(
        self, login: PageLogin, bodies: BodyReader, renderer: PageRenderer, observer: PageObserver
    ) -> None:
        self._observer = observer
        self._login = login
        self._bodies = bodies
        self._renderer = renderer

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.Response:
        """Answer a request of the login. Raises ``RequestRefused``."""
        if request.method not in {"GET", "HEAD", "POST"}:
            raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD,POST", close=True)
        try:
            if request.method == "POST":
                form = await receive_form(request, self._bodies)
                return await self._log_in(request, {name: values[0] for name, values in form.items()}, peer)
            query = read_query(request.rel_url.raw_query_string)
        except PageRefused as refused:
            raise RequestRefused(refused.status, refused.text, close=True) from refused
        except StoreUnavailable as error:
            raise RequestRefused(503, "Redis cannot be reached: nobody can log in now.") from error
        # The link is used by the form only: what fetches links, such as a preview, must not use it up.
        return self._form_page(query.get("link", ""), query.get("to", ""))

    def ask_to_log_in(self, request: web.BaseRequest) -> web.Response:
        """Send whoever wants to see a page to the form, and refuse everything else with it."""
        if request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("Accept", ""):
            target = request.rel_url.raw_path_qs
            # A longer one would not be followed after the login, and proxies refuse an answer with such a field.
            query = f"?to={quote(target, safe='/')}" if _TARGET.fullmatch(target) else ""
            return redirect(f"{LOGIN_PATH}{query}")
        response = self._form_page(
            "", "", PageRefused(403, "You have not logged in, or your session has ended. Nothing was changed.")
        )
        response.headers["X-Login"] = "needed"  # for the scripts of the page
        response.force_close()  # the rest of a form is not read
        return response

    async def _log_in(self, request: web.BaseRequest, form: Mapping[str, str], peer: Peer) -> web.Response:
        fields = tuple(request.headers.items())
        client = client_of(peer, fields, self._login.allow_from)
        method = "link" if "link" in form else "password"
        try:
            sources = failure_sources(peer, fields, self._login.allow_from)
            token = await self._begin_session(form, client, sources)
        except PageRefused as refused:
            self._observer.login_tried(method, accepted=False)
            # Programs such as fail2ban read the address of the peer: whoever says that it is a proxy may lie.
            compared = "not compared" if refused.status == 429 else "wrong"
            told = {"peer": str(peer), "path": LOGIN_PATH, "password": "none" if method == "link" else compared}
            if client != peer:
                told["client"] = str(client)
            _log.warning("http: a request was refused", extra=event_fields(**told))
            return self._form_page("", form.get("to", ""), refused)
        self._observer.login_tried(method, accepted=True)
        _log.info("page: somebody logged in", extra=event_fields(client=str(client)))
        # No redirect: a browser does not send the new cookie with one that began on another site.
        html = self._renderer.render(Page("logged_in.html", {"target": _local_target(form.get("to", ""))}), None)
        response = html_response(html)
        set_cookie(response, request, SESSION_COOKIE, token, SESSION_SECONDS)
        return response

    async def _begin_session(self, form: Mapping[str, str], client: Peer, sources: Mapping[str, int]) -> str:
        if "link" in form:
            return await self._login.with_link(form["link"])
        name = login_name(form.get("name", ""), str(client))
        return await self._login.with_password(form.get("password", ""), name, sources)

    def _form_page(self, link: str, target: str, refused: PageRefused | None = None) -> web.Response:
        values = {
            "link": link if is_token(link) else "",
            "target": _local_target(target),
            "has_password": self._login.has_password,
            "refusal": refused.text if refused else "",
        }
        html = self._renderer.render(Page("login.html", values), None)
        return html_response(html, refused.status if refused else 200)


def session_token(request: web.BaseRequest) -> str:
    """Return the token in the cookie of a request; empty where it has none."""
    token = read_cookie(request, SESSION_COOKIE)
    return token if is_token(token) else ""


def _local_target(target: str) -> str:
    """Return the page to show after the login: a link from elsewhere must not choose another site."""
    return target if _TARGET.fullmatch(target) else PREFIX
