"""The view lists: the senders that always or never pass, of the site and of each user, to see and to change."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.logs import event_fields
from nbstream.policy.address_patterns import MAX_ENTRIES, MAX_SEARCHED_ENTRIES, SenderPattern
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH
from nbstream.policy.sender_lists import SITE, ListKind, list_owner
from nbstream.store.sender_lists import MAX_ALL_ENTRIES, ListChange
from nbstream.web.admin.requests import Answer, Page, PageRefused, PageRequest, PageRoute, Redirect, View

if TYPE_CHECKING:
    from nbstream.policy.sender_lists import OwnerList
    from nbstream.store.sender_lists import StoredSenderLists

_log = logging.getLogger(__name__)

_FULL = (
    f"Nothing was changed: a list has at most {MAX_ENTRIES:,} entries, {MAX_SEARCHED_ENTRIES} of them networks "
    f"and patterns with * and ?, and all lists together have at most {MAX_ALL_ENTRIES:,}."
)
_SENTENCES = {
    ListChange.ADDED: "{sender} was added.",
    ListChange.CHANGED: "{sender} was changed.",
    ListChange.ALREADY: "{sender} was there already.",
    ListChange.REMOVED: "{sender} was removed.",
    ListChange.UNKNOWN: "{sender} was not there any more.",
    ListChange.FULL: _FULL,
}


class ListsView(View):
    """Shows one list at a time; ``configured`` returns the list in the settings that are in force."""

    navigation = ("/ui/lists", "Lists")

    def __init__(self, lists: StoredSenderLists, configured: Callable[[], OwnerList]) -> None:
        self._lists = lists
        self._configured = configured

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
        return (
            PageRoute("GET", "/ui/lists", self._show),
            PageRoute("POST", "/ui/lists/add", self._add),
            PageRoute("POST", "/ui/lists/remove", self._remove),
        )

    async def _show(self, request: PageRequest) -> Answer:
        user = _read_user(request.query.get("user", ""))
        return Page(
            "lists.html",
            {
                "user": user,
                "entries": await self._lists.entries(user or SITE),
                "configured": [] if user else self._configured().entries,
                "kinds": [str(kind) for kind in ListKind],
            },
        )

    async def _add(self, request: PageRequest) -> Answer:
        user, sender = _read_user(request.form_value("user")), _read_sender(request)
        try:
            kind = ListKind(request.form_value("kind"))
        except ValueError as error:
            raise PageRefused(400, "Nothing was changed: a sender is allowed or blocked.") from error
        change = await self._lists.add(user or SITE, kind, sender, request.session.name)
        return _report(change, sender, user, request)

    async def _remove(self, request: PageRequest) -> Answer:
        user, sender = _read_user(request.form_value("user")), _read_sender(request)
        return _report(await self._lists.remove(user or SITE, sender), sender, user, request)


def _read_user(written: str) -> str:
    """Return the owner of the list of a user, empty for that of the site. Raises ``PageRefused``."""
    address = written.strip().removeprefix("<").removesuffix(">")
    if address and ("@" not in address or len(address) > MAX_ADDRESS_LENGTH or not address.isprintable()):
        raise PageRefused(400, "A user is known by a whole address, such as ann@example.org.")
    return list_owner(address)


def _read_sender(request: PageRequest) -> SenderPattern:
    try:
        return SenderPattern.parse(request.form_value("sender"))
    except ValueError as error:
        raise PageRefused(400, f"Nothing was changed: a sender {error}.") from error


def _report(change: ListChange, sender: SenderPattern, user: str, request: PageRequest) -> Answer:
    if change is ListChange.FULL:
        raise PageRefused(400, _FULL)
    _log.info(
        "page: a sender list was changed",
        extra=event_fields(actor=request.session.name, list=user or SITE, sender=sender.text, change=str(change)),
    )
    path = f"/ui/lists?{urlencode({'user': user})}" if user else "/ui/lists"
    return Redirect(path, _SENTENCES[change].format(sender=sender.text))
