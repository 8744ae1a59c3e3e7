"""The view of one message of a user: why it was called what it was, and what he says of it.

Rules: a message of somebody else, one that is forgotten and one that never was are the same to the user. What he
teaches has his address as its actor, and goes where the lessons of users go. He releases to himself alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from nbstream.page.quarantine_view import readable_quarantine
from nbstream.page.requests import Page, PageRefused, PageRoute, Redirect, View
from nbstream.policy.lesson_source import Insistence
from nbstream.user_page.sessions import PREFIX
from nbstream.user_page.texts import TEXTS
from nbstream.users.held_mail import HeldOutcome
from nbstream.users.sentences import describe
from nbstream.wire.api_json import is_message_id

if TYPE_CHECKING:
    from nbstream.page.requests import Answer, PageRequest
    from nbstream.user_page.own_mail import OwnMail
    from nbstream.users.held_mail import HeldMail
    from nbstream.users.teacher import UserTeacher

_LABELS = ("spam", "ham")
_RELEASE = "release"
_RETURN_PATHS: Mapping[str, str] = {"held": PREFIX, "messages": "/my/messages"}


class MessageView(View):
    """``/my/messages/{id}``: a POST teaches or releases the message."""

    def __init__(self, mail: OwnMail, held: HeldMail, teacher: UserTeacher) -> None:
        self._mail = mail
        self._held = held
        self._teacher = teacher

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes of the view."""
        path = "/my/messages/{id}"
        return PageRoute("GET", path, self._show), PageRoute("POST", path, self._change)

    async def _show(self, request: PageRequest) -> Answer:
        address, message_id = request.session.name, _read_id(request)
        with readable_quarantine():
            held = await self._mail.find_held(address, message_id)
        checked = await self._mail.find(address, message_id)
        if held is None and checked is None:
            raise _not_found()
        own = await self._mail.explain(address, message_id)
        label = await self._mail.label(address, message_id)
        sentences: Sequence[str] = ()
        if own:
            sentences = describe(own.explanation, label, request.language, is_corrected=own.is_corrected)
        values = {"id": message_id, "held": held, "checked": checked, "label": label, "sentences": sentences}
        return Page("message.html", values)

    async def _change(self, request: PageRequest) -> Answer:
        address, message_id, action = request.session.name, _read_id(request), request.form_value("action")
        if action not in {*_LABELS, _RELEASE}:
            raise PageRefused(400, "no such action")
        if action == _RELEASE:
            flash = await self._release(address, message_id, again=request.form_value("again") == "yes")
        else:
            flash = await self._learn(address, message_id, action)
        is_gone = flash == f"released_{HeldOutcome.DONE}"  # perhaps nothing else is known of it
        own_path = PREFIX if is_gone else f"/my/messages/{message_id}"
        path = _RETURN_PATHS.get(request.form_value("then"), own_path)
        return Redirect(path, TEXTS[request.language][flash])

    async def _release(self, address: str, message_id: str, *, again: bool) -> str:
        """Release the message to the user, and return the name of the text that says what became of that."""
        outcome = await self._held.release(address, message_id, again=again)
        if outcome is HeldOutcome.GONE and not await self._mail.find(address, message_id):
            raise _not_found()
        return f"released_{outcome}"

    async def _learn(self, address: str, message_id: str, label: str) -> str:
        """Teach the message, and return the name of the text that says what became of that."""
        with readable_quarantine():
            message = await self._mail.learnable(address, message_id)
        if message is None:
            if await self._mail.find(address, message_id):
                return "not_learned"
            raise _not_found()
        await self._teacher.learn(address, message, label, Insistence.AFTER_PAUSE)
        return "learned"


def _read_id(request: PageRequest) -> str:
    if not is_message_id(request.path_id):
        raise _not_found()
    return request.path_id


def _not_found() -> PageRefused:
    return PageRefused(404, "no such message")
