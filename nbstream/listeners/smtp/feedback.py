"""Feedback by mail: a message sent to the spam or the ham address is learned as that.

Rules: only from allowed networks; 250 only when every message that is meant is durably learned; a repeat
changes nothing, so after a 451 the client may send the same again. What is meant, ``policy.feedback_mail`` says.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import FeedbackRefused, NbstreamError, StoreRefuses
from nbstream.filter import describe_lesson, describe_lessons
from nbstream.listeners.lesson_log import log_lesson
from nbstream.listeners.smtp.error_replies import error_reply
from nbstream.logs import event_fields
from nbstream.policy.feedback_mail import FeedbackContent, parse_feedback_mail
from nbstream.policy.incoming_message import incoming_message
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from nbstream.filter import LearnableMessage, Lesson
    from nbstream.listeners.peers import Peer
    from nbstream.listeners.runtime import Runtime

_log = logging.getLogger(__name__)

_THREAD_BYTES = 256 * 1024
_NOT_ALLOWED_REPLY = SmtpReply(550, "5.7.1 Feedback is not accepted from here")


class FeedbackObserver(Protocol):
    """What the door itself reports; what is learned, the filter reports."""

    def feedback_refused(self, label: str, source: str) -> None:
        """Feedback came from a peer that is not believed, or did not hold what can be learned."""

    def feedback_failed(self, label: str | None, source: str) -> None:
        """One message was not reached, because one before it could not be stored."""


class FeedbackMailbox:
    """Learns from mail that is sent to the feedback addresses."""

    def __init__(self, runtime: Runtime, observer: FeedbackObserver) -> None:
        self._filter = runtime.spam_filter
        self._limits = runtime.message_limits
        self._observer = observer
        addresses = runtime.feedback_addresses
        self._labels = {addresses.spam.lower(): "spam", addresses.ham.lower(): "ham"}

    def label_of(self, address: str) -> str | None:
        """The label that an address stands for; None for every other recipient."""
        return self._labels.get(address.lower())

    def refuse(self, label: str, source: str, peer: Peer) -> SmtpReply:
        """The answer to feedback from a peer that may not teach."""
        self._observer.feedback_refused(label, source)
        _log.warning(
            "feedback refused: its sender is not in feedback.allow_from", extra=event_fields(peer=str(peer))
        )
        return _NOT_ALLOWED_REPLY

    async def learn(self, content: bytes, label: str, source: str, actor: str = "") -> SmtpReply:
        """Learn what ``content`` (CRLF line ends) means as ``label``; the reply says what changed.

        ``source`` is the door, ``actor`` the address of whoever teaches.
        """
        lessons: list[Lesson] = []
        meant = FeedbackContent()
        try:
            meant = await self._parse_feedback(content, label)
            for subject in await self._messages_to_learn(meant, label, source):
                lessons.append(await self._filter.learn(subject, label, source, actor))
                log_lesson(lessons[-1], source, actor)
        except FeedbackRefused as refusal:
            self._observer.feedback_refused(label, source)
            _log.warning("feedback refused: %s", refusal)
            return error_reply(refusal)
        except NbstreamError as error:
            for _ in meant.messages[len(lessons) + 1 :]:
                self._observer.feedback_failed(label, source)
            # The store itself says once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "feedback: %d of %d messages learned: %s", len(lessons), len(meant.messages), error)
            return error_reply(error)
        if len(lessons) == 1:
            return SmtpReply(250, f"2.0.0 {describe_lesson(lessons[0])}; id={lessons[0].after.id}")
        return SmtpReply(250, f"2.0.0 {len(lessons)} messages as {label}: {describe_lessons(lessons)}")

    async def _parse_feedback(self, content: bytes, label: str) -> FeedbackContent:
        arguments = (content, label, self._labels.keys(), self._limits)
        if len(content) > _THREAD_BYTES:
            return await asyncio.to_thread(parse_feedback_mail, *arguments)
        return parse_feedback_mail(*arguments)

    async def _messages_to_learn(
        self, meant: FeedbackContent, label: str, source: str
    ) -> Iterable[LearnableMessage]:
        """One at a time, so that a large mail is not there once more with all its parts."""
        if meant.id is None:
            limits = self._limits
            return (incoming_message(raw, limits) for raw in meant.messages)
        try:
            checked = await self._filter.recall(meant.id)
        except NbstreamError:
            self._observer.feedback_failed(label, source)
            raise
        if checked is None:
            raise FeedbackRefused(
                f"Unknown id {meant.id}: not remembered any more; forward the message as an attachment"
            )
        return [checked]
