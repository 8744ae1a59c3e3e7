"""The view with which a user switches his digest on and off."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from nbstream.page.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.user_page.texts import TEXTS

if TYPE_CHECKING:
    from nbstream.page.requests import Answer, PageRequest
    from nbstream.users.preferences import UserPreferences

PATH = "/my/digest"


class DigestView(View):
    """``/my/digest``."""

    navigation = (PATH, "digest")

    def __init__(self, preferences: UserPreferences) -> None:
        self._preferences = preferences

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return PageRoute("GET", PATH, self._show), PageRoute("POST", PATH, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        return Page("digest.html", {"is_on": await self._preferences.wants_digest(request.session.name)})

    async def _change(self, request: PageRequest) -> Answer:
        wanted = request.form_value("digest")
        if wanted not in {"on", "off"}:
            raise PageRefused(400, "no such choice")
        await self._preferences.set_digest(request.session.name, wanted=wanted == "on")
        return Redirect(PATH, TEXTS[request.language][f"digest_is_{wanted}"])
