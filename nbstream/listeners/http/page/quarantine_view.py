"""The view of the quarantine: what waits there, its header and text, release and deletion, also of many at once.

Rules: what cannot be taken back is asked for twice: a deletion, and the release of what may have been delivered
already. Each message has a result of its own, since one may be released while another one is refused.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.errors import InputError
from nbstream.listeners.http.page.address_filters import read_address
from nbstream.listeners.http.page.quarantine_list import MAX_READ, MailOrder, MailQuery
from nbstream.listeners.http.page.quarantined_mail import GONE, MailResult, describe_unreadable
from nbstream.listeners.http.page.requests import Page, PageRefused
from nbstream.listeners.http.page.routes import PageRoute
from nbstream.listeners.http.page.selected_messages import read_selected_ids

if TYPE_CHECKING:
    from nbstream.listeners.http.page.known_rows import FindRows
    from nbstream.listeners.http.page.quarantine_list import QuarantinedMail
    from nbstream.listeners.http.page.quarantined_mail import PageQuarantine
    from nbstream.listeners.http.page.requests import Answer, PageRequest

_ROWS = 50
_SECONDS = 30.0  # nothing begins later than this after the first message: a browser waits for the answer
_NO_TIME = "The release was not tried, because the others took too long. Release the message once more."


class QuarantineView:
    """``/ui/quarantine``; a message of it is shown by the view of one message."""

    def __init__(self, waiting: PageQuarantine, find_rows: FindRows) -> None:
        self._quarantine = waiting
        self._find_rows = find_rows

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return (
            PageRoute("GET", "/ui/quarantine", self._list),
            PageRoute("POST", "/ui/quarantine", self._change),
        )

    async def _list(self, request: PageRequest) -> Answer:
        query, filters, problems = _read_query(request.query)
        try:
            page = await self._quarantine.list_page(query, _ROWS)
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        selects_all = request.query.get("select") == "all"
        values = {
            "page": page,
            "query": query,
            "filters": filters,
            "problems": problems,
            "orders": list(MailOrder),
            "here": _link(filters, cursor=query.cursor),
            "first": _link(filters),
            "older": _link(filters, cursor=page.next_cursor),
            "select_all": _link(filters, cursor=query.cursor, select="all"),
            "selects_all": selects_all,
            "is_used": self._quarantine.is_used(),
        }
        return Page("quarantine.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        if request.form_value("action") == "delete_matching":
            return await self._delete_matching(request)
        ids = read_selected_ids(request)
        try:
            mails = await self._quarantine.find_all(ids)
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        gone = [MailResult(each, False, GONE) for each in ids if each not in mails]
        actor = request.session.name
        match request.form_value("action"):
            case "release":
                again = request.form_value("again") == "yes"
                results = await self._release_all(list(mails.values()), actor, again=again)
            case "delete" if request.form_value("confirmed") == "yes":
                results = [await self._quarantine.delete(mail, actor) for mail in mails.values()]
            case "delete":
                rows = await self._quarantine.subjects(list(mails.values()))
                return Page("quarantine_delete.html", {"rows": rows, "gone": gone, "found": 0})
            case _:
                raise PageRefused(400, "Nothing was changed: the quarantine has no such action.")
        return Page("quarantine_results.html", {"results": [*results, *gone], "rows": await self._find_rows(ids)})

    async def _delete_matching(self, request: PageRequest) -> Answer:
        """Delete all that the filters find, of what there was when this was asked; ``MAX_READ`` at most."""
        fields = {name: request.form_value(name) for name in ("sender", "recipient", "until")}
        query, filters, problems = _read_query({**fields, "before": ""})
        if problems:  # a filter that is not understood finds all
            raise PageRefused(400, problems[0])
        try:
            found, until = await self._quarantine.find_until(query, fields["until"])
        except InputError as error:
            raise PageRefused(503, describe_unreadable(error)) from error
        if request.form_value("confirmed") != "yes" or not fields["until"]:
            values = {"gone": (), "rows": (), "found": len(found), "most": MAX_READ}
            return Page("quarantine_delete.html", {**values, "filters": filters, "until": until})
        results, stop = [], time.monotonic() + _SECONDS
        for mail in found:
            if time.monotonic() >= stop:
                break
            results.append(await self._quarantine.delete(mail, request.session.name))
        failed = [result for result in results if not result.is_done]
        values = {"results": failed, "rows": {}, "deleted": len(results) - len(failed)}
        return Page("quarantine_results.html", {**values, "left": len(found) - len(results)})

    async def _release_all(
        self, mails: Sequence[QuarantinedMail], actor: str, *, again: bool
    ) -> Sequence[MailResult]:
        """Release one message after the other, as long as there is time to begin."""
        results = []
        until = time.monotonic() + _SECONDS
        for mail in mails:
            if time.monotonic() < until:
                results.append(await self._quarantine.release(mail, actor, again=again))
            else:
                results.append(MailResult(mail.id, False, _NO_TIME))
        return results


def _read_query(fields: Mapping[str, str]) -> tuple[MailQuery, Mapping[str, str], Sequence[str]]:
    """Return what is asked for, the filters as they were understood, and what was not."""
    filters = {name: fields.get(name, "").strip() for name in ("sender", "recipient", "order")}
    if filters["order"] not in set(MailOrder):
        filters["order"] = MailOrder.NEWEST
    problems: list[str] = []
    sender, recipient = (read_address(filters, name, problems) for name in ("sender", "recipient"))
    order = MailOrder(filters["order"])
    return MailQuery(sender, recipient, order, fields.get("before", "")), filters, problems


def _link(filters: Mapping[str, str], cursor: str = "", select: str = "") -> str:
    """Return the address of a page of the list."""
    fields = {**filters, "before": cursor, "select": select}
    if fields["order"] == MailOrder.NEWEST:
        del fields["order"]
    query = urlencode({name: value for name, value in fields.items() if value})
    return f"/ui/quarantine?{query}" if query else "/ui/quarantine"
