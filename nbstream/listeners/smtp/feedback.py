"""Feedback by mail: a message sent to the spam or the ham address is learned as that.

Rules: only from allowed networks; 250 only when every message that is meant is durably learned; a repeat
changes nothing, so after a 451 the client may send the same again. What is meant, ``policy.feedback_mail`` says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import FeedbackRefused, NbstreamError, Reply, StoreRefuses
from nbstream.filter import tell, tell_many
from nbstream.listeners.lesson_log import log_lesson
from nbstream.listeners.peers import Network, is_here, within
from nbstream.mail import header_fields
from nbstream.mail.message import Message
from nbstream.policy import verdict_fields
from nbstream.policy.feedback_mail import Meaning, meaning

if TYPE_CHECKING:
    from nbstream.filter import Filter, Lesson, Subject
    from nbstream.mail.mime import Limits

_log = logging.getLogger(__name__)

_THREAD_BYTES = 256 * 1024
_STRANGER = Reply(550, "5.7.1 Feedback is not accepted from here")


@dataclass(frozen=True, slots=True)
class Params:
    """The two addresses, and the networks whose word is believed."""

    spam_address: str
    ham_address: str
    allow_from: Sequence[Network]
    limits: Limits


class FeedbackObserver(Protocol):
    """What the door itself reports; what is learned, the filter reports."""

    def feedback_refused(self, label: str, source: str) -> None:
        """Feedback came from a peer that is not believed, or did not hold what can be learned."""

    def teaching_failed(self, label: str | None, source: str) -> None:
        """One message was not reached, because one before it could not be stored."""


class FeedbackDoor:
    """Learns from mail that is sent to the feedback addresses."""

    def __init__(self, spam_filter: Filter, params: Params, observer: FeedbackObserver) -> None:
        self._filter = spam_filter
        self._observer = observer
        self._params = params
        self._labels = {params.spam_address.lower(): "spam", params.ham_address.lower(): "ham"}

    def label_of(self, address: str) -> str | None:
        """The label that an address stands for; None for every other recipient."""
        return self._labels.get(address.lower())

    def allows(self, host: str) -> bool:
        """True when feedback from this peer (an IP address) is believed."""
        return within(host, self._params.allow_from)

    def believes(self, host: str) -> bool:
        """True when this peer may also say for whom it teaches: it runs on this machine, as a mail server does."""
        return is_here(host) and self.allows(host)

    def refuse(self, label: str, source: str, peer: str) -> Reply:
        """The answer to feedback from a peer (an IP address) that is not allowed."""
        self._observer.feedback_refused(label, source)
        _log.warning(
            "feedback refused: its sender is not in feedback.allow_from", extra={"fields": {"peer": peer}}
        )
        return _STRANGER

    async def learn(self, content: bytes, label: str, source: str, actor: str = "") -> Reply:
        """Learn what ``content`` (CRLF line ends) means as ``label``; the reply says what changed.

        ``source`` is the door, ``actor`` the address of whoever teaches.
        """
        lessons: list[Lesson] = []
        meant = Meaning()
        try:
            meant = await self._meaning(content, label)
            for subject in await self._subjects(meant, label, source):
                lessons.append(await self._filter.learn(subject, label, source, actor))
                log_lesson(lessons[-1], source, actor)
        except FeedbackRefused as refusal:
            self._observer.feedback_refused(label, source)
            _log.warning("feedback refused: %s", refusal)
            return refusal.reply
        except NbstreamError as error:
            for _ in meant.messages[len(lessons) + 1 :]:
                self._observer.teaching_failed(label, source)
            # The store itself says once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "feedback: %d of %d messages learned: %s", len(lessons), len(meant.messages), error)
            return error.reply
        if len(lessons) == 1:
            return Reply(250, f"2.0.0 {tell(lessons[0])}; id={lessons[0].after.id}")
        return Reply(250, f"2.0.0 {len(lessons)} messages as {label}: {tell_many(lessons)}")

    async def _meaning(self, content: bytes, label: str) -> Meaning:
        arguments = (content, label, self._labels.keys(), self._params.limits)
        if len(content) > _THREAD_BYTES:
            return await asyncio.to_thread(meaning, *arguments)
        return meaning(*arguments)

    async def _subjects(self, meant: Meaning, label: str, source: str) -> Iterable[Subject]:
        """One at a time, so that a large mail is not there once more with all its parts."""
        if meant.id is None:
            limits = self._params.limits
            return (
                Message.parse(header_fields.strip(raw, verdict_fields.VERDICT_FIELDS), limits)
                for raw in meant.messages
            )
        try:
            checked = await self._filter.recall(meant.id)
        except NbstreamError:
            self._observer.teaching_failed(label, source)
            raise
        if checked is None:
            raise FeedbackRefused(
                f"Unknown id {meant.id}: not remembered any more; forward the message as an attachment"
            )
        return [checked]
