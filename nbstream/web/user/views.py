"""The views of users: what was checked lately, one message, and the digest.

Rules: a message of somebody else, one that is forgotten and one that never was are the same to the user. What
they teach has their address as its actor, and goes where the lessons of users go. They release to themselves
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from nbstream.policy.feedback_source import Reinforcement
from nbstream.server.api_json import is_message_id
from nbstream.web.areas import USER_PREFIX
from nbstream.web.forms import read_position
from nbstream.web.quarantine import MailOutcome, readable_quarantine
from nbstream.web.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.web.texts import TEXTS
from nbstream.web.user.own_mail import OwnMessage

if TYPE_CHECKING:
    from nbstream.filter import LessonMessage
    from nbstream.web.quarantine import QuarantinedMail, WebQuarantine
    from nbstream.web.requests import Answer, PageRequest
    from nbstream.web.user.own_mail import OwnMail
    from nbstream.web.users.preferences import UserPreferences

_MESSAGES_PATH, _DIGEST_PATH = "/my/messages", "/my/digest"
_SHOWN = 25
_LABELS = ("spam", "ham")
_RELEASE = "release"
_RETURN_PATHS: Mapping[str, str] = {"quarantine": USER_PREFIX, "messages": _MESSAGES_PATH}


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
        after = page.next_position
        older = after and urlencode({"older": f"{after.checked_at!r}_{after.id}"})
        values = {
            "messages": await self._mail.own_messages(request.session.name, page.rows),
            "has_envelopes": self._has_envelopes,
            "older": f"{_MESSAGES_PATH}?{older}" if older else "",
            "newest": _MESSAGES_PATH if position else "",
        }
        return Page("user/messages.html", values)


class MessageView(View):
    """``/my/messages/{id}``: a POST teaches or releases the message."""

    def __init__(self, mail: OwnMail, quarantine: WebQuarantine) -> None:
        self._mail = mail
        self._quarantine = quarantine

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        path = f"{_MESSAGES_PATH}/{{id}}"
        return PageRoute("GET", path, self._show), PageRoute("POST", path, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        address, message_id = request.session.name, _read_id(request)
        mail, message = await self._find(address, message_id), await self._mail.find(address, message_id)
        if message is None and mail:
            (row,) = await self._quarantine.rows([mail])
            verdict = row.note.verdict if row.note else None
            label = await self._mail.label(address, message_id)
            message = OwnMessage(message_id, mail.at, row.sender, row.subject, verdict, label)
        if message is None:
            raise _no_such_message()
        sentences = await self._mail.why(address, message_id, request.language)
        return Page("user/message.html", {"mail": mail, "message": message, "sentences": sentences})

    async def _find(self, address: str, message_id: str) -> QuarantinedMail | None:
        with readable_quarantine():
            return await self._quarantine.find(address, message_id)

    async def _change(self, request: PageRequest) -> Answer:
        address, message_id, action = request.session.name, _read_id(request), request.form_value("action")
        if action not in {*_LABELS, _RELEASE}:
            raise PageRefused(400, "no such action")
        if action == _RELEASE:
            flash = await self._release(address, message_id, again=request.form_value("again") == "yes")
        else:
            flash = await self._learn(address, message_id, action)
        is_gone = flash == f"released_{MailOutcome.DONE}"  # perhaps nothing else is known of it
        own_path = USER_PREFIX if is_gone else f"{_MESSAGES_PATH}/{message_id}"
        path = _RETURN_PATHS.get(request.form_value("then"), own_path)
        return Redirect(path, TEXTS[request.language][flash])

    async def _release(self, address: str, message_id: str, *, again: bool) -> str:
        """Release the message to the user, and return the name of the text that says what became of that."""
        mail = await self._find(address, message_id)
        if mail:
            return f"released_{(await self._quarantine.release(address, mail, address, again=again)).outcome}"
        if await self._mail.find(address, message_id):
            return f"released_{MailOutcome.GONE}"
        raise _no_such_message()

    async def _learn(self, address: str, message_id: str, label: str) -> str:
        """Teach the message, and return the name of the text that says what became of that."""
        is_own = await self._mail.find(address, message_id)
        message: LessonMessage | None = await self._mail.recall(message_id) if is_own else None
        if message is None and (mail := await self._find(address, message_id)):
            with readable_quarantine():
                message = await self._quarantine.message(mail)
        if message:
            await self._quarantine.learn(address, message, label, address, Reinforcement.AFTER_PAUSE)
            return "learned"
        if is_own:
            return "not_learned"
        raise _no_such_message()


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
