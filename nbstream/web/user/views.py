"""The views of users: what is held back, what was checked lately, one message, and the digest.

Rules: a message of somebody else, one that is forgotten and one that never was are the same to the user. What
they teach has their address as its actor, and goes where the lessons of users go. They release to themselves
alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.policy.feedback_source import Reinforcement
from nbstream.server.api_json import is_message_id
from nbstream.web.admin.quarantine_view import readable_quarantine
from nbstream.web.areas import USER_PREFIX
from nbstream.web.forms import read_position
from nbstream.web.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.web.texts import TEXTS
from nbstream.web.users.held_mail import HeldOutcome
from nbstream.web.users.sentences import describe

if TYPE_CHECKING:
    from nbstream.web.requests import Answer, PageRequest
    from nbstream.web.user.own_mail import OwnMail
    from nbstream.web.users.held_mail import HeldMail, HeldMessage, UserTeacher
    from nbstream.web.users.preferences import UserPreferences

_MESSAGES_PATH, _DIGEST_PATH = "/my/messages", "/my/digest"
_SHOWN = 25
_LABELS = ("spam", "ham")
_RELEASE = "release"
_RETURN_PATHS: Mapping[str, str] = {"held": USER_PREFIX, "messages": _MESSAGES_PATH}


async def _why(
    mail: OwnMail, address: str, message_id: str, language: str, label: str | None = None
) -> Sequence[str]:
    """Return why a message of the user was called what it was; nothing where too little is remembered."""
    own = await mail.explain(address, message_id)
    return describe(own.explanation, label, language, is_corrected=own.is_corrected) if own else ()


class HeldView(View):
    """``/my/``: what is held back for the user; the view of a message does what its buttons say."""

    navigation = (USER_PREFIX, "held")

    def __init__(self, mail: OwnMail) -> None:
        self._mail = mail

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the list."""
        return (PageRoute("GET", USER_PREFIX, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        address, language = request.session.name, request.language
        with readable_quarantine():
            messages = await self._mail.waiting(address, _SHOWN + 1)

        async def why(message: HeldMessage) -> str:
            if message.by_list:
                return TEXTS[language]["why_list"]
            return " ".join((await _why(self._mail, address, message.id, language))[:2])

        reasons = await asyncio.gather(*map(why, messages[:_SHOWN]))
        values = {"held": list(zip(messages, reasons, strict=False)), "has_more": len(messages) > _SHOWN}
        return Page("user/held.html", values)


class MessagesView(View):
    """``/my/messages``; ``has_envelopes``: it is remembered to whom messages were addressed."""

    navigation = (_MESSAGES_PATH, "messages")

    def __init__(self, mail: OwnMail, has_envelopes: bool) -> None:
        self._mail = mail
        self._has_envelopes = has_envelopes

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the list."""
        return (PageRoute("GET", _MESSAGES_PATH, self._list),)

    async def _list(self, request: PageRequest) -> Answer:
        position = read_position(request.query.get("older", ""))
        page = await self._mail.checked(request.session.name, position, _SHOWN)
        older = page.older and urlencode({"older": f"{page.older.checked_at!r}_{page.older.id}"})
        values = {
            "messages": page.messages,
            "has_envelopes": self._has_envelopes,
            "older": f"{_MESSAGES_PATH}?{older}" if older else "",
            "newest": _MESSAGES_PATH if position else "",
        }
        return Page("user/messages.html", values)


class MessageView(View):
    """``/my/messages/{id}``: a POST teaches or releases the message."""

    def __init__(self, mail: OwnMail, held: HeldMail, teacher: UserTeacher) -> None:
        self._mail = mail
        self._held = held
        self._teacher = teacher

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        path = f"{_MESSAGES_PATH}/{{id}}"
        return PageRoute("GET", path, self._show), PageRoute("POST", path, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        address, message_id = request.session.name, _read_id(request)
        with readable_quarantine():
            held = await self._held.find(address, message_id)
        checked = await self._mail.find(address, message_id)
        if held is None and checked is None:
            raise _no_such_message()
        label = await self._mail.label(address, message_id)
        sentences = await _why(self._mail, address, message_id, request.language, label)
        values = {"id": message_id, "held": held, "checked": checked, "label": label, "sentences": sentences}
        return Page("user/message.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        address, message_id, action = request.session.name, _read_id(request), request.form_value("action")
        if action not in {*_LABELS, _RELEASE}:
            raise PageRefused(400, "no such action")
        if action == _RELEASE:
            flash = await self._release(address, message_id, again=request.form_value("again") == "yes")
        else:
            flash = await self._learn(address, message_id, action)
        is_gone = flash == f"released_{HeldOutcome.DONE}"  # perhaps nothing else is known of it
        own_path = USER_PREFIX if is_gone else f"{_MESSAGES_PATH}/{message_id}"
        path = _RETURN_PATHS.get(request.form_value("then"), own_path)
        return Redirect(path, TEXTS[request.language][flash])

    async def _release(self, address: str, message_id: str, *, again: bool) -> str:
        """Release the message to the user, and return the name of the text that says what became of that."""
        outcome = await self._held.release(address, message_id, again=again)
        if outcome is HeldOutcome.GONE and not await self._mail.find(address, message_id):
            raise _no_such_message()
        return f"released_{outcome}"

    async def _learn(self, address: str, message_id: str, label: str) -> str:
        """Teach the message, and return the name of the text that says what became of that."""
        with readable_quarantine():
            message = await self._mail.learnable(address, message_id)
        if message is None:
            if await self._mail.find(address, message_id):
                return "not_learned"
            raise _no_such_message()
        await self._teacher.learn(address, message, label, Reinforcement.AFTER_PAUSE)
        return "learned"


def _read_id(request: PageRequest) -> str:
    if not is_message_id(request.path_id):
        raise _no_such_message()
    return request.path_id


def _no_such_message() -> PageRefused:
    return PageRefused(404, "no such message")


class DigestView(View):
    """``/my/digest``."""

    navigation = (_DIGEST_PATH, "digest")

    def __init__(self, preferences: UserPreferences) -> None:
        self._preferences = preferences

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        return PageRoute("GET", _DIGEST_PATH, self._show), PageRoute("POST", _DIGEST_PATH, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        return Page("user/digest.html", {"is_on": await self._preferences.wants_digest(request.session.name)})

    async def _change(self, request: PageRequest) -> Answer:
        wanted = request.form_value("digest")
        if wanted not in {"on", "off"}:
            raise PageRefused(400, "no such choice")
        await self._preferences.set_digest(request.session.name, wanted=wanted == "on")
        return Redirect(_DIGEST_PATH)
