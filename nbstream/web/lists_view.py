"""The view of the senders that always or never pass.

Rules: administrators see and change the list of the site and that of each user, users their own alone. Users
name addresses and domains; networks are for administrators.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from nbstream.logs import event_fields
from nbstream.policy.address_patterns import SenderPattern
from nbstream.policy.envelope import MAX_ADDRESS_LENGTH
from nbstream.policy.sender_lists import SITE, ListKind, list_owner
from nbstream.web.areas import PREFIX
from nbstream.web.forms import link_to
from nbstream.web.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.web.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.policy.sender_lists import OwnerList
    from nbstream.store.sender_lists import StoredSenderLists
    from nbstream.web.requests import Answer, PageRequest

_log = logging.getLogger(__name__)


class ListsView(View):
    """Shows one list at a time, below ``prefix``.

    ``configured`` returns the list in the settings that are in force, for administrators.
    """

    def __init__(
        self, prefix: str, lists: StoredSenderLists, configured: Callable[[], OwnerList] | None = None
    ) -> None:
        self._path = f"{prefix}senders"
        self._is_admin = prefix == PREFIX
        self._lists = lists
        self._configured = configured
        self.navigation = (self._path, "lists")

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return PageRoute("GET", self._path, self._show), PageRoute("POST", self._path, self._change)

    def _owner(self, request: PageRequest, written: str) -> str:
        """Return whose list is meant: ``written`` is the user that an administrator names."""
        return _read_user(written) if self._is_admin else list_owner(request.session.name)

    async def _show(self, request: PageRequest) -> Answer:
        owner = self._owner(request, request.query.get("user", ""))
        configured = self._configured().entries if self._configured and owner == SITE else ()
        values = {
            "user": "" if owner == SITE else owner,
            "entries": await self._lists.entries(owner),
            "configured": configured,
        }
        return Page("lists.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        owner = self._owner(request, request.form_value("user"))
        sender, actor = self._read_sender(request), request.session.name
        match request.form_value("action"):
            case "remove":
                change = await self._lists.remove(owner, sender)
            case "allow" | "block" as kind:
                change = await self._lists.add(owner, ListKind(kind), sender, actor)
            case _:
                raise PageRefused(400, "Nothing was changed: a sender is allowed, blocked or removed.")
        _log.info(
            "page: a sender list was changed",
            extra=event_fields(actor=actor, list=owner, sender=sender.text, change=str(change)),
        )
        user = owner if self._is_admin and owner != SITE else ""
        return Redirect(link_to(self._path, {}, user=user), TEXTS[request.language][f"list_{change}"])

    def _read_sender(self, request: PageRequest) -> SenderPattern:
        try:
            pattern = SenderPattern.parse(request.form_value("sender"))
        except ValueError as error:
            raise PageRefused(400, f"Nothing was changed: a sender {error}.") from error
        if pattern.network and not self._is_admin:
            raise PageRefused(400, "no sender for users")
        return pattern


def _read_user(written: str) -> str:
    """Return the owner of the list of a user, or the site. Raises ``PageRefused``."""
    address = written.strip().removeprefix("<").removesuffix(">")
    if address and ("@" not in address or len(address) > MAX_ADDRESS_LENGTH or not address.isprintable()):
        raise PageRefused(400, "A user is known by a whole address, such as ann@example.org.")
    return list_owner(address) or SITE
