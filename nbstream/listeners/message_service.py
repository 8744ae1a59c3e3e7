"""What doors for programs do with a message: check it, or learn it, with metrics and a line in the log."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import NbstreamError, StoreRefuses
from nbstream.listeners.lesson_log import log_lesson
from nbstream.listeners.message_log import log_message
from nbstream.mail.message import Message
from nbstream.policy.incoming_message import incoming_message
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from nbstream.filter import Check, Filter, Lesson
    from nbstream.mail.mime import MessageLimits
    from nbstream.policy.recipient_rules import RecipientTreatment

_log = logging.getLogger(__name__)

_THREAD_BYTES = 256 * 1024
_SEVERITY = list(Verdict)


class MessageServiceObserver(Protocol):
    """What is reported beside what the filter reports itself."""

    def connected(self, listener: str, accepted: bool) -> None:
        """A client connected; a door that is full, or closes, turns it away."""

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered; the verdict is "none" where the check failed."""

    def filter_failed(self, reason: str) -> None:
        """One check failed."""

    def feedback_refused(self, label: str, source: str) -> None:
        """Feedback came from a peer that is not believed."""


class MessageService:
    """Takes whole messages from a door of that name; ``spam_filter`` may be replaced at any time."""

    def __init__(
        self, name: str, spam_filter: Filter, limits: MessageLimits, observer: MessageServiceObserver
    ) -> None:
        self.spam_filter = spam_filter
        self._listener_name = name
        self._limits = limits
        self._observer = observer

    def connected(self, accepted: bool) -> None:
        """A client connected to the door, or was turned away."""
        self._observer.connected(self._listener_name, accepted)

    async def parse_mail(self, raw: bytes) -> Message:
        """The message in ``raw``, line ends of any kind, without verdict fields: the same through every door."""
        if len(raw) > _THREAD_BYTES:
            return await asyncio.to_thread(self._parse_mail, raw)
        return self._parse_mail(raw)

    def parse_text(self, text: str) -> Message:
        """A text that is no mail."""
        return Message.from_text(text, self._limits)

    def _parse_mail(self, raw: bytes) -> Message:
        return incoming_message(raw, self._limits)

    async def check(
        self, message: Message, treatments: Collection[RecipientTreatment] = ()
    ) -> tuple[Check, float]:
        """The check, and the seconds that it took.

        Of several ``treatments`` the mildest verdict holds, of equal ones that of the rule further up in the file;
        where there are none, that of the filter's own policy. Raises ``StoreUnavailable`` while no counts are
        loaded.
        """

        async def mildest(check: Check) -> Check:
            ordered = sorted(treatments, key=lambda each: each.position)
            decided = [await self.spam_filter.decide_for_treatment(check, each) for each in ordered]
            return min(decided, key=lambda each: _SEVERITY.index(each.verdict))

        started = time.perf_counter()
        try:
            check = await self.spam_filter.check(message, mildest if treatments else None)
        except Exception as error:
            known = isinstance(error, NbstreamError)
            self._observer.filter_failed("store" if known else "error")
            self._observer.delivered(self._listener_name, "none")
            if known:
                _log.error("%s: check failed: %s", self._listener_name, error)
            raise
        seconds = time.perf_counter() - started
        self._observer.delivered(self._listener_name, str(check.verdict))
        log_message(self._listener_name, check, seconds)
        return check, seconds

    async def teach(self, message: Message, label: str | None, actor: str) -> Lesson:
        """Learn that the message is ``label``; None takes back what it was learned as.

        Raises ``StoreUnavailable`` or ``CountsFull``; nothing is half done then.
        """
        try:
            if label is None:
                lesson = await self.spam_filter.unlearn(message, self._listener_name, actor)
            else:
                lesson = await self.spam_filter.learn(message, label, self._listener_name, actor)
        except NbstreamError as error:
            # The store itself says once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "%s: feedback not taken: %s", self._listener_name, error)
            raise
        log_lesson(lesson, self._listener_name, actor)
        return lesson

    def feedback_refused(
        self,
        label: str = "none",
        why: str = "its sender is not allowed to teach",
        told: Mapping[str, object] | None = None,
    ) -> None:
        """Feedback was not taken, from a peer that is not believed or for what cannot be learned.

        ``told`` are fields of the line in the log.
        """
        self._observer.feedback_refused(label, self._listener_name)
        _log.warning("%s: feedback refused: %s", self._listener_name, why, extra={"fields": told or {}})
