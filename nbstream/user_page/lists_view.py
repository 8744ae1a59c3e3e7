"""The view of the senders whose mail a user always or never wants.

Rules: a user changes his own list alone, and names addresses and domains. Networks, and patterns that are compared
with each message one by one, are for administrators.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbstream.logs import event_fields
from nbstream.page.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.policy.sender_lists import ListKind, list_owner
from nbstream.policy.sender_patterns import SenderPattern
from nbstream.user_page.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.page.requests import Answer, PageRequest
    from nbstream.store.sender_lists import StoredSenderLists

PATH = "/my/senders"

_log = logging.getLogger(__name__)


class ListsView(View):
    """``/my/senders``."""

    navigation = (PATH, "lists")

    def __init__(self, lists: StoredSenderLists) -> None:
        self._lists = lists

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return PageRoute("GET", PATH, self._show), PageRoute("POST", PATH, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        entries = await self._lists.entries(list_owner(request.session.name))
        by_kind = {str(kind): [entry for entry in entries if entry.kind is kind] for kind in ListKind}
        return Page("lists.html", {"by_kind": by_kind})

    async def _change(self, request: PageRequest) -> Answer:
        address, sender = request.session.name, _read_sender(request)
        match request.form_value("action"):
            case "remove":
                change = await self._lists.remove(list_owner(address), sender)
            case "allow" | "block" as kind:
                change = await self._lists.add(list_owner(address), ListKind(kind), sender, address)
            case _:
                raise PageRefused(400, "no such action")
        _log.info("page: a user changed his sender list", extra=event_fields(user=address, change=str(change)))
        return Redirect(PATH, TEXTS[request.language][f"list_{change}"])


def _read_sender(request: PageRequest) -> SenderPattern:
    try:
        pattern = SenderPattern.parse(request.form_value("sender"))
    except ValueError:
        raise PageRefused(400, "no sender") from None
    if pattern.is_searched:
        raise PageRefused(400, "no sender for users")
    return pattern
