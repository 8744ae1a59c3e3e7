"""The view of the quarantine, for all mail or for that of one user.

Rules: what cannot be taken back is asked for twice: a deletion, and the release of what may have been delivered
already. Each message has a result of its own, since one may be released while another one is refused. Users have
no filter, which would tell them of other recipients; the view of a message does what their buttons say.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.verdict import ActionKind
from nbstream.web.admin.messages_view import rows_of_results
from nbstream.web.areas import PREFIX, USER_PREFIX
from nbstream.web.forms import link_to, read_address, read_selected_ids
from nbstream.web.quarantine import (
    MailOrder,
    MailOutcome,
    MailQuery,
    MailResult,
    WebQuarantine,
    readable_quarantine,
)
from nbstream.web.requests import Page, PageRefused, PageRoute, View
from nbstream.web.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.server.runtime import Runtime
    from nbstream.web.admin.messages_view import FindRows
    from nbstream.web.quarantine import ListedMail
    from nbstream.web.requests import Answer, PageRequest

Explain: TypeAlias = Callable[[str, str, str], Awaitable[Sequence[str]]]
"""Returns sentences about a message of a user: their address, the id of the message, and a language."""

_ROWS, _USER_ROWS = 50, 25
_SECONDS = 30.0  # nothing begins later than this after the first message: a browser waits for the answer
_NO_TIME = "The release was not tried, because the others took too long. Release the message once more."


class QuarantineView(View):
    """``/ui/quarantine``: a message of it is shown by the view of one message."""

    path = f"{PREFIX}quarantine"
    navigation = (path, "quarantine")

    def __init__(self, quarantine: WebQuarantine, find_rows: FindRows, runtime: Callable[[], Runtime]) -> None:
        self._quarantine = quarantine
        self._find_rows = find_rows
        self._runtime = runtime

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return PageRoute("GET", self.path, self._list), PageRoute("POST", self.path, self._change)

    async def _list(self, request: PageRequest) -> Answer:
        query, filters, problems = _read_query(request.query)
        with readable_quarantine():
            page = await self._quarantine.list_page(None, query, _ROWS)
        values = {
            "page": page,
            "reasons": {},
            "query": query,
            "filters": filters,
            "problems": problems,
            "here": link_to(self.path, filters, before=query.cursor),
            "first": link_to(self.path, filters) if query.cursor else "",
            "older": link_to(self.path, filters, before=page.next_cursor) if page.next_cursor else "",
            "select_all": link_to(self.path, filters, before=query.cursor, select="all"),
            "selects_all": request.query.get("select") == "all",
            "is_used": self._runtime().rules.may_take(ActionKind.QUARANTINE),
        }
        return Page("quarantine.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        ids = read_selected_ids(request)
        with readable_quarantine():
            mails = await self._quarantine.find_all(None, ids)
        results = [MailResult(each, MailOutcome.GONE) for each in ids if each not in mails]
        actor, until = request.session.name, time.monotonic() + _SECONDS
        match request.form_value("action"):
            case "release":
                again = request.form_value("again") == "yes"
                for mail in mails.values():
                    if time.monotonic() < until:
                        results.append(await self._quarantine.release(None, mail, actor, again=again))
                    else:
                        results.append(MailResult(mail.id, MailOutcome.LATER, _NO_TIME))
            case "delete" if request.form_value("confirmed") == "yes":
                results += [await self._quarantine.delete(mail, actor) for mail in mails.values()]
            case "delete":
                return Page("admin/quarantine_delete.html", {"rows": await self._quarantine.rows(mails.values())})
            case _:
                raise PageRefused(400, "Nothing was changed: the quarantine has no such action.")
        values = {"results": results, "rows": await rows_of_results(self._find_rows, ids)}
        return Page("admin/quarantine_results.html", values)


class UserQuarantineView(View):
    """``/my/``: the newest mail that waits for the user."""

    navigation = (USER_PREFIX, "quarantine")

    def __init__(self, quarantine: WebQuarantine, explain: Explain) -> None:
        self._quarantine = quarantine
        self._explain = explain

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", USER_PREFIX, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        user, language, cursor = request.session.name, request.language, request.query.get("before", "")
        with readable_quarantine():
            page = await self._quarantine.list_page(user, MailQuery(cursor=cursor), _USER_ROWS)

        async def why(row: ListedMail) -> str:
            if row.note and row.note.by_list:
                return TEXTS[language]["why_list"]
            return " ".join((await self._explain(user, row.mail.id, language))[:2])

        reasons = await asyncio.gather(*map(why, page.rows))
        values = {
            "page": page,
            "reasons": {row.mail.id: reason for row, reason in zip(page.rows, reasons, strict=True)},
            "first": USER_PREFIX if cursor else "",
            "older": link_to(USER_PREFIX, {}, before=page.next_cursor) if page.next_cursor else "",
        }
        return Page("quarantine.html", values)


def _read_query(fields: Mapping[str, str]) -> tuple[MailQuery, Mapping[str, str], Sequence[str]]:
    """Return what is asked for, the filters as they were understood, and what was not."""
    filters = {name: fields.get(name, "").strip() for name in ("sender", "recipient", "order")}
    if filters["order"] != MailOrder.LEAST_SPAM:
        filters["order"] = ""
    problems: list[str] = []
    sender, recipient = (read_address(filters, name, problems) for name in ("sender", "recipient"))
    order = MailOrder(filters["order"] or MailOrder.NEWEST)
    return MailQuery(sender, recipient, order, fields.get("before", "")), filters, problems
