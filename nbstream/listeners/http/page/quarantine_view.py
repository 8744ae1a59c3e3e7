"""The view of the quarantine: what waits there, its header and text, release and deletion, also of many at once.

Rules: what cannot be taken back is asked for twice: a deletion, and the release of what may have been delivered
already. Each message has a result of its own, since one may be released while another one is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from nbstream.errors import InputError
from nbstream.listeners.http.page.quarantined_mail import MailResult, describe_unreadable
from nbstream.listeners.http.page.requests import Page, PageRefused
from nbstream.listeners.http.page.routes import PageRoute
from nbstream.listeners.http.page.texts import text
from nbstream.wire.api_v1 import is_message_id

if TYPE_CHECKING:
    from nbstream.listeners.http.page.quarantined_mail import PageQuarantine, QuarantinedMail
    from nbstream.listeners.http.page.requests import Answer, PageRequest

MAX_SELECTED = 100
_ROWS = 50
_RELEASE_SECONDS = 30.0  # no release begins later than this after the first one: a browser waits for the answer


class QuarantineView:
    """``/ui/quarantine`` and ``/ui/quarantine/{id}``."""

    def __init__(self, waiting: PageQuarantine) -> None:
        self._quarantine = waiting

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return (
            PageRoute("GET", "/ui/quarantine", self._list),
            PageRoute("POST", "/ui/quarantine", self._change),
            PageRoute("GET", "/ui/quarantine/{id}", self._show),
        )

    async def _list(self, request: PageRequest) -> Answer:
        cursor = request.query.get("before", "")
        try:
            page = await self._quarantine.list_page(cursor, _ROWS)
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        selects_all = request.query.get("select") == "all"
        is_used = self._quarantine.is_used()
        values = {"page": page, "cursor": cursor, "selects_all": selects_all, "is_used": is_used}
        return Page("quarantine.html", values)

    async def _show(self, request: PageRequest) -> Answer:
        if not is_message_id(request.path_id):
            raise PageRefused(404, text("quarantine.gone"))
        try:
            mail = await self._quarantine.find(request.path_id)
            shown = await self._quarantine.show(mail) if mail else None
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        if shown is None:
            raise PageRefused(404, text("quarantine.gone"))
        return Page("quarantined.html", {"shown": shown})

    async def _change(self, request: PageRequest) -> Answer:
        ids = list(dict.fromkeys(filter(is_message_id, request.form.get("id", ()))))
        if not ids:
            raise PageRefused(400, text("quarantine.nothing_selected"))
        if len(ids) > MAX_SELECTED:
            raise PageRefused(400, text("quarantine.too_many", limit=MAX_SELECTED))
        try:
            mails = await self._quarantine.find_all(ids)
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        gone = [MailResult(each, False, text("quarantine.gone")) for each in ids if each not in mails]
        actor = request.session.name
        match request.form_value("action"):
            case "release":
                again = request.form_value("again") == "yes"
                results = await self._release_all(list(mails.values()), actor, again=again)
            case "delete" if request.form_value("confirmed") == "yes":
                results = [await self._quarantine.delete(mail, actor) for mail in mails.values()]
            case "delete":
                rows = await self._quarantine.subjects(list(mails.values()))
                return Page("quarantine_delete.html", {"rows": rows, "gone": gone})
            case _:
                raise PageRefused(400, text("quarantine.unknown_action"))
        return Page("quarantine_results.html", {"results": [*results, *gone]})

    async def _release_all(
        self, mails: Sequence[QuarantinedMail], actor: str, *, again: bool
    ) -> Sequence[MailResult]:
        """Release one message after the other, as long as there is time to begin."""
        results = []
        until = time.monotonic() + _RELEASE_SECONDS
        for mail in mails:
            if time.monotonic() < until:
                results.append(await self._quarantine.release(mail, actor, again=again))
            else:
                results.append(MailResult(mail.id, False, text("quarantine.no_time")))
        return results
