"""Logging in: one form, and one answer to it, for administrators and for users.

Rules: no peer needs less than a password or a link, because a local user is no administrator. Who knows a password
or has a link may begin sixty sessions a minute, since each stays in Redis for hours. Links have a count of their
own, wrong ones too, which keep nobody behind the same address from their password. A link logs in by a button
alone: what fetches links, such as a preview or a scanner of mail, must not use it up. What an authenticator
compares, and how it limits wrong passwords, is its own matter.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from nbstream.errors import StoreUnavailable
from nbstream.logs import event_fields
from nbstream.server.http.access import client_of, failure_sources
from nbstream.server.http.responses import RequestRefused
from nbstream.store.logins import SESSION_SECONDS
from nbstream.web.forms import read_query, receive_form
from nbstream.web.requests import Page, PageRefused
from nbstream.web.responses import choose_language, html_response, redirect, set_cookie
from nbstream.web.sessions import session_token

if TYPE_CHECKING:
    from aiohttp import web

    from nbstream.server.connections import Network, Peer
    from nbstream.server.http.responses import BodyReader
    from nbstream.store.logins import AttemptCounts
    from nbstream.web.areas import Area
    from nbstream.web.rendering import PageRenderer
    from nbstream.web.sessions import Sessions

_MAX_LOGINS = 60  # a minute and client
_MAX_NAME_LENGTH = 320

_log = logging.getLogger(__name__)


@dataclass(eq=False, kw_only=True, slots=True)
class Login:
    """The login of all areas.

    ``counts`` are those of all processes. ``allow_from`` are the networks whose peers may name the clients that
    they ask for.
    """

    sessions: Sessions
    counts: AttemptCounts
    allow_from: Sequence[Network]
    bodies: BodyReader
    renderer: PageRenderer

    async def answer(self, area: Area, request: web.BaseRequest, peer: Peer) -> web.Response:
        """Answer a request of the login. Raises ``RequestRefused``."""
        if request.method not in {"GET", "HEAD", "POST"}:
            raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD,POST", close=True)
        try:
            if request.method == "POST":
                form = await receive_form(request, self.bodies)
                return await self._log_in(area, request, {name: values[0] for name, values in form.items()}, peer)
            return self._form_page(area, request, read_query(request.rel_url.raw_query_string))
        except PageRefused as refused:
            raise RequestRefused(refused.status, refused.text, close=True) from refused
        except StoreUnavailable as error:
            raise RequestRefused(503, "Redis cannot be reached: nobody can log in now.") from error

    def ask_to_log_in(self, area: Area, request: web.BaseRequest) -> web.Response:
        """Send whoever wants to see a page to the form, and refuse everything else with it."""
        if request.method in {"GET", "HEAD"} and "text/html" in request.headers.get("Accept", ""):
            target = area.local_target(request.rel_url.raw_path_qs)
            return redirect(f"{area.login_path}?to={quote(target, safe='/')}")
        reason = "login_ended" if session_token(request, area.session_cookie) else "login_needed"
        response = self._form_page(area, request, {}, PageRefused(403, reason))
        response.force_close()  # the rest of a form is not read
        return response

    async def _log_in(
        self, area: Area, request: web.BaseRequest, form: Mapping[str, str], peer: Peer
    ) -> web.Response:
        """Begin a session with what the form has, or say why not. Raises ``StoreUnavailable``."""
        assert area.authenticator is not None  # the login of others is not asked
        assert area.metrics is not None
        fields = tuple(request.headers.items())
        client = client_of(peer, fields, self.allow_from)
        sources = failure_sources(peer, fields, self.allow_from)
        method = "link" if "link" in form else "password"
        try:
            if method == "link":  # which is used up by a look at it
                await self._count_login(f"{next(iter(sources))} links")
            who = await area.authenticator.identify(form, client, sources)
            if method == "password":
                await self._count_login(f"{next(iter(sources))} logins")
        except PageRefused as refused:
            area.metrics.login_tried(method, accepted=False)
            # Programs such as fail2ban read the address of the peer: whoever says that it is a proxy may lie.
            compared = "not compared" if refused.status == 429 else "wrong"
            told = {
                "peer": str(peer),
                "path": area.login_path,
                "password": "none" if method == "link" else compared,
            }
            if client != peer:
                told["client"] = str(client)
            if refused.status != 503:  # nobody knows whether it is right
                _log.warning("http: a request was refused", extra=event_fields(**told))
            return self._form_page(area, request, form, refused)
        token = await self.sessions.store.create_session(*who)
        area.metrics.login_tried(method, accepted=True)
        _log.info("page: login", extra=event_fields(client=str(client), actor=who.name))
        # No redirect: a browser does not send the new cookie with one that began on another site.
        response = self._render(
            area, request, Page("logged_in.html", {"target": area.local_target(form.get("to", ""))})
        )
        set_cookie(response, request, area.session_cookie, token, SESSION_SECONDS, path=area.prefix)
        return response

    async def _count_login(self, source: str) -> None:
        """Count a login of this source. Raises ``PageRefused`` for too many."""
        (logins,) = await self.counts.add([source])
        if logins.count > _MAX_LOGINS:
            raise PageRefused(429, "login_too_many")

    def _form_page(
        self,
        area: Area,
        request: web.BaseRequest,
        fields: Mapping[str, str],
        refused: PageRefused | None = None,
    ) -> web.Response:
        """Return the form, with what was given, or with why nobody was logged in."""
        values = {
            "link": "" if refused else fields.get("link", ""),
            "user": fields.get("user", "")[:_MAX_NAME_LENGTH],
            "target": area.local_target(fields.get("to", "")),
            "has_password": area.authenticator is not None and area.authenticator.has_password,
            "refusal": refused.text if refused else "",
        }
        return self._render(area, request, Page("login.html", values, refused.status if refused else 200))

    def _render(self, area: Area, request: web.BaseRequest, page: Page) -> web.Response:
        language = choose_language(request.headers, area.languages)
        return html_response(self.renderer.render(page, None, area, language=language), page.status)
