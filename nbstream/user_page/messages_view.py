"""The view of what was checked for a user lately, a page at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.page.messages_view import read_position
from nbstream.page.requests import Page, PageRoute, View

if TYPE_CHECKING:
    from nbstream.page.requests import Answer, PageRequest
    from nbstream.user_page.own_mail import OwnMail

PATH = "/my/messages"
_SHOWN = 25


class MessagesView(View):
    """``/my/messages``; ``has_envelopes``: it is remembered to whom messages were addressed."""

    navigation = (PATH, "messages")

    def __init__(self, mail: OwnMail, has_envelopes: bool) -> None:
        self._mail = mail
        self._has_envelopes = has_envelopes

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the list."""
        return (PageRoute("GET", PATH, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        position = read_position(request.query.get("older", ""))
        page = await self._mail.checked(request.session.name, position, _SHOWN)
        older = page.older and urlencode({"older": f"{page.older.checked_at!r}_{page.older.id}"})
        return Page(
            "messages.html",
            {
                "messages": page.messages,
                "has_envelopes": self._has_envelopes,
                "older": f"{PATH}?{older}" if older else "",
                "newest": PATH if position else "",
            },
        )
