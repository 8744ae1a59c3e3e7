"""The pages behind the links of a digest.

Rules: nobody logs in here, the token of the link says who may do what. A GET shows and changes nothing, whoever
opens the link; a POST of the form that it shows, with the same token, does it. A token that is altered, has ended
or is for something else gets one and the same page.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.errors import NbstreamError
from nbstream.logs import event_fields
from nbstream.web.areas import USER_PREFIX
from nbstream.web.quarantine import MailOutcome
from nbstream.web.requests import Page, PageRefused, PageRoute, View
from nbstream.web.users.links import LinkPurpose

if TYPE_CHECKING:
    from nbstream.metrics import MetricsRegistry
    from nbstream.web.quarantine import ListedMail, WebQuarantine
    from nbstream.web.requests import Answer, PageRequest
    from nbstream.web.users.links import LinkKeys, SignedLink
    from nbstream.web.users.preferences import UserPreferences

_PURPOSES = (LinkPurpose.RELEASE, LinkPurpose.HAM, LinkPurpose.DIGEST)
_STATUSES = {
    MailOutcome.DONE: 200,
    MailOutcome.GONE: 410,
    MailOutcome.IN_DOUBT: 409,
    MailOutcome.REFUSED: 502,
    MailOutcome.LATER: 503,
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


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """What a page shows: the names of its text and of that on its button, and a further field of its form."""

    text: str
    status: int = 200
    outcome: str = "shown"
    row: ListedMail | None = None
    button: str = ""
    field: tuple[str, str] | None = None


class LinkView(View):
    """``/my/link/{purpose}``; ``now`` returns the time in seconds since 1970."""

    def __init__(
        self,
        quarantine: WebQuarantine,
        preferences: UserPreferences,
        keys: LinkKeys,
        metrics: LinkMetrics,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._quarantine = quarantine
        self._preferences = preferences
        self._keys = keys
        self._metrics = metrics
        self._now = now

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return tuple(
            PageRoute(method, f"{USER_PREFIX}link/{{id}}", self._answer, is_open=True)
            for method in ("GET", "POST")
        )

    async def _answer(self, request: PageRequest) -> Answer:
        if request.path_id not in _PURPOSES:
            raise PageRefused(404, "no such page")
        purpose, token = LinkPurpose(request.path_id), request.form_value("link") or request.query.get("link", "")
        link = None
        try:
            link = (await self._keys.signer()).read(token, purpose, self._now())
            if link is None:
                shown = _Shown(text="link_invalid", status=403, outcome="invalid")
                _log.warning("http: a link is not valid", extra=event_fields(purpose=str(purpose)))
            elif request.form:
                shown = await self._change(link, request)
            else:
                shown = await self._show(link)
        except NbstreamError as error:
            _log.warning("http: a link could not be followed: %s", error)
            shown = _Shown(text="released_later", status=503, outcome=MailOutcome.LATER)
        self._metrics.count(purpose, shown.outcome)
        values = {
            "title": f"link_{purpose}" if link else "error_400",
            "shown": shown,
            "address": link.address if link else "",
            "token": token if link else "",  # nothing that was not signed is shown
        }
        return Page("user/link.html", values, shown.status)

    async def _show(self, link: SignedLink) -> _Shown:
        """Return what the link would do. Raises ``NbstreamError``."""
        if link.purpose is LinkPurpose.DIGEST:
            return await self._show_digest(link)
        mail = await self._quarantine.find(link.address, link.message_id)
        if mail is None:
            return _Shown(text="released_gone", status=410, outcome=MailOutcome.GONE)
        (row,) = await self._quarantine.rows([mail])
        button = "release" if link.purpose is LinkPurpose.RELEASE else "is_ham"
        return _Shown(text=f"ask_{link.purpose}", row=row, button=button)

    async def _show_digest(self, link: SignedLink) -> _Shown:
        state, other = ("on", "off") if await self._preferences.wants_digest(link.address) else ("off", "on")
        return _Shown(text=f"digest_{state}", button=f"digest_switch_{other}", field=("digest", other))

    async def _change(self, link: SignedLink, request: PageRequest) -> _Shown:
        """Do what the link is for. Raises ``NbstreamError``."""
        quarantine, address = self._quarantine, link.address
        if link.purpose is LinkPurpose.DIGEST:
            await self._preferences.set_digest(address, wanted=request.form_value("digest") == "on")
            return replace(await self._show_digest(link), outcome=MailOutcome.DONE)
        mail = await quarantine.find(address, link.message_id)
        if mail is None:
            outcome = MailOutcome.GONE
        elif link.purpose is LinkPurpose.RELEASE:
            again = request.form_value("again") == "yes"
            outcome = (await quarantine.release(address, mail, address, again=again)).outcome
        else:
            await quarantine.learn(address, await quarantine.message(mail), "ham", address)
            return _Shown(text="learned", outcome=MailOutcome.DONE)
        shown = _Shown(text=f"released_{outcome}", status=_STATUSES[outcome], outcome=outcome)
        if outcome is MailOutcome.IN_DOUBT:
            return replace(shown, button="release_again", field=("again", "yes"))
        return shown
