"""The view of what was held back for a user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbstream.page.quarantine_view import readable_quarantine
from nbstream.page.requests import Page, PageRoute, View
from nbstream.user_page.sessions import PREFIX

if TYPE_CHECKING:
    from nbstream.page.requests import Answer, PageRequest
    from nbstream.user_page.own_mail import OwnMail

_SHOWN = 50


class HeldView(View):
    """``/my/``: what waits in the quarantine for the user; the view of a message does what its buttons say."""

    navigation = (PREFIX, "held")

    def __init__(self, mail: OwnMail) -> None:
        self._mail = mail

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the list."""
        return (PageRoute("GET", PREFIX, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        with readable_quarantine():
            messages = await self._mail.waiting(request.session.name, _SHOWN + 1)
        return Page("held.html", {"messages": messages[:_SHOWN], "has_more": len(messages) > _SHOWN})
