"""The pages behind the links of a digest over HTTP.

Rules: nobody logs in here, the token of the link says who may do what. A GET shows and changes nothing, whoever
opens the link; a POST of the form that it shows, with the same token, does it. A token that is altered, has ended
or is for something else gets one and the same page.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import web
from prometheus_client import Counter

from nbstream.errors import InputError, StoreUnavailable
from nbstream.logs import event_fields
from nbstream.server.http.responses import RequestRefused
from nbstream.web.admin.forms import read_query, receive_form
from nbstream.web.admin.requests import Page, PageRefused
from nbstream.web.admin.responses import SECURITY_FIELDS, html_response
from nbstream.web.admin.server import choose_language
from nbstream.web.users.held_mail import HeldOutcome
from nbstream.web.users.links import LinkPurpose, link_path

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.metrics import MetricsRegistry
    from nbstream.server.api_json import HttpProblem
    from nbstream.server.connections import Peer
    from nbstream.server.http.bodies import BodyReader
    from nbstream.web.admin.rendering import PageRenderer
    from nbstream.web.users.held_mail import HeldMail, HeldMessage
    from nbstream.web.users.links import LinkKeys, SignedLink
    from nbstream.web.users.preferences import UserPreferences

_PURPOSES = {link_path(purpose): purpose for purpose in (LinkPurpose.RELEASE, LinkPurpose.HAM, LinkPurpose.DIGEST)}
_STYLE_PATH = "/my/link/style.css"
_STYLE_FIELDS = {
    **SECURITY_FIELDS,
    "Content-Type": "text/css; charset=utf-8",
    "Cache-Control": "public, max-age=3600",
}
_STATUSES = {
    HeldOutcome.DONE: 200,
    HeldOutcome.GONE: 410,
    HeldOutcome.IN_DOUBT: 409,
    HeldOutcome.REFUSED: 502,
    HeldOutcome.LATER: 503,
}

_log = logging.getLogger(__name__)


class LinkMetrics:
    """Counts what is asked of the pages behind links, where ``digest`` and ``listeners.http`` are configured."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._requests = Counter(
            "nbstream_digest_links",
            "Requests of the pages behind the links of a digest, by purpose (release, ham, digest) and outcome: "
            "shown, done, gone, in_doubt, refused, later, invalid. Only with digest and listeners.http.",
            ["purpose", "outcome"],
            registry=registry.counts,
        )

    def count(self, purpose: LinkPurpose, outcome: str) -> None:
        """Count a request."""
        self._requests.labels(purpose, outcome).inc()


class _Shown(NamedTuple):
    """What a page shows: the name of its text, and of that on its button, with the fields of the form."""

    text: str
    status: int = 200
    outcome: str = "shown"
    message: HeldMessage | None = None
    button: str = ""
    fields: Mapping[str, str] = {}


@dataclass(eq=False, kw_only=True, slots=True)
class LinkPages:
    """Answers all requests of the pages behind links; ``languages`` are theirs, that of the digest first.

    ``now`` returns the time in seconds since 1970.
    """

    held: HeldMail
    preferences: UserPreferences
    keys: LinkKeys
    bodies: BodyReader
    renderer: PageRenderer
    metrics: LinkMetrics
    languages: Sequence[str]
    now: Callable[[], float] = time.time
    _style: bytes = field(
        default_factory=resources.files("nbstream.web.user").joinpath("link_templates/style.css").read_bytes,
        init=False,
    )

    def prepare(self) -> None:
        """Do nothing: the one template is small."""

    async def close(self) -> None:
        """Do nothing, since nothing is done between requests."""

    def serves(self, path: str) -> bool:
        """Return whether a request for this path belongs to these pages."""
        return path in _PURPOSES or path == _STYLE_PATH

    async def answer(self, request: web.BaseRequest, peer: Peer) -> web.Response:
        """Answer a request. What it raises ``refusal`` makes a page of, once it is an ``HttpProblem``."""
        if request.path == _STYLE_PATH:
            return web.Response(body=self._style, headers=_STYLE_FIELDS)
        if request.method not in {"GET", "HEAD", "POST"}:
            raise RequestRefused(405, "Method Not Allowed", allow="GET,HEAD,POST", close=True)
        purpose, form = _PURPOSES[request.path], await self._read(request)
        token, link = form.get("link", ""), None
        try:
            link = (await self.keys.signer()).read(token, purpose, self.now())
            if link is None:
                shown = _Shown("invalid", 403, "invalid")
                _log.warning("http: a link is not valid", extra=event_fields(peer=str(peer), path=request.path))
            elif request.method == "POST":
                shown = await self._change(link, form)
            else:
                shown = await self._show(link)
        except (StoreUnavailable, InputError) as error:
            _log.warning("http: a link could not be followed: %s", error)
            shown = _Shown("later", 503, HeldOutcome.LATER)
        self.metrics.count(purpose, shown.outcome)
        return self._page(request, f"title_{purpose}" if link else "title", shown, token, link)

    def refusal(
        self, request: web.BaseRequest, problem: HttpProblem, *, close: bool, allow: str | None
    ) -> web.Response:
        """Return the page that says that a request is refused."""
        text = {503: "later", 500: "failed"}.get(problem.status, "invalid")
        response = self._page(request, "title", _Shown(text, problem.status))
        if allow is not None:
            response.headers["Allow"] = allow
        if close:
            response.force_close()
        return response

    async def _read(self, request: web.BaseRequest) -> Mapping[str, str]:
        """Return the query of a GET, the form of a POST. Raises ``RequestRefused``."""
        try:
            if request.method != "POST":
                return read_query(request.rel_url.raw_query_string)
            form = await receive_form(request, self.bodies)
        except PageRefused as refused:
            raise RequestRefused(refused.status, refused.text, close=True) from refused
        return {name: values[0] for name, values in form.items()}

    async def _show(self, link: SignedLink) -> _Shown:
        """Return what the link would do. Raises ``StoreUnavailable`` or ``InputError``."""
        if link.purpose is LinkPurpose.DIGEST:
            return await self._show_digest(link)
        message = await self.held.find(link.address, link.message_id)
        if message is None:
            return _Shown("gone", 410, HeldOutcome.GONE)
        return _Shown(f"ask_{link.purpose}", message=message, button=f"do_{link.purpose}")

    async def _show_digest(self, link: SignedLink, outcome: str = "shown") -> _Shown:
        state, other = ("on", "off") if await self.preferences.wants_digest(link.address) else ("off", "on")
        return _Shown(
            f"ask_digest_{state}", outcome=outcome, button=f"do_digest_{state}", fields={"digest": other}
        )

    async def _change(self, link: SignedLink, form: Mapping[str, str]) -> _Shown:
        """Do what the link is for. Raises ``StoreUnavailable``."""
        held, address, message_id = self.held, link.address, link.message_id
        match link.purpose:
            case LinkPurpose.RELEASE:
                outcome = await held.release(address, message_id, again=form.get("again") == "yes")
            case LinkPurpose.HAM:
                outcome = await held.learn_ham(address, message_id)
            case _:
                await self.preferences.set_digest(address, wanted=form.get("digest") == "on")
                return await self._show_digest(link, HeldOutcome.DONE)
        status = _STATUSES[outcome]
        if outcome is HeldOutcome.DONE:
            return _Shown(f"done_{link.purpose}", status, outcome)
        if outcome is HeldOutcome.IN_DOUBT:
            return _Shown(outcome, status, outcome, button="again", fields={"again": "yes"})
        return _Shown(outcome, status, outcome)

    def _page(
        self, request: web.BaseRequest, title: str, shown: _Shown, token: str = "", link: SignedLink | None = None
    ) -> web.Response:
        values = {
            "title": title,
            "text": shown.text,
            "message": shown.message,
            "address": link.address if link else "",
            "button": shown.button,
            "fields": shown.fields,
            "token": token if link else "",  # nothing that was not signed is shown
            "path": request.path,
            "style_path": _STYLE_PATH,
        }
        language = choose_language(request.headers, self.languages)
        html = self.renderer.render(Page("link.html", values), None, language=language)
        return html_response(html, shown.status)
