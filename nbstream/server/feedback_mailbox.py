"""Feedback by mail: a message that is sent to the spam address or the ham address is learned as spam or ham.

Rules: feedback is taken only from clients that may teach. The reply is a 250 only when every message that is meant
is durably learned. A repeat within ten minutes changes nothing: after a 451 the client may send the same again. A
later one insists, if the verdict still contradicts the label and the mail means one message only: of several, the
first may have been learned before the 451, however late the client's queue sends the mail again.
Where users have own models, nobody's lesson is refused: it would become everybody's.
``policy.feedback_mail`` says which messages are meant.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from nbstream.errors import FeedbackRefused, NbstreamError, StoreRefuses
from nbstream.filter import describe_lesson, describe_lessons
from nbstream.logs import event_fields
from nbstream.policy.feedback_mail import FeedbackContent, parse_feedback_mail
from nbstream.policy.lesson_source import Insistence
from nbstream.server.log_lines import log_lesson
from nbstream.server.smtp_replies import error_reply
from nbstream.threads import in_thread_if_large
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from nbstream.filter import Filter, LearnableMessage, Lesson
    from nbstream.filter.metrics import FilterMetrics
    from nbstream.server.peers import Peer
    from nbstream.server.runtime import Runtime


_log = logging.getLogger(__name__)

_NOT_ALLOWED_REPLY = SmtpReply(550, "5.7.1 Feedback is not accepted from here")


class FeedbackMailbox:
    """Learns from mail that is sent to the feedback addresses."""

    def __init__(self, runtime: Runtime, observer: FilterMetrics) -> None:
        self._runtime = runtime
        self._message_reader = runtime.message_reader
        self._observer = observer
        self._addresses = runtime.feedback_addresses

    def label_of(self, address: str) -> str | None:
        """Return the label that an address stands for; None for every other recipient."""
        return self._addresses.label_of(address)

    def refuse(self, label: str, source: str, peer: Peer) -> SmtpReply:
        """Report feedback from a client that may not teach, and return the reply to it."""
        self._observer.feedback_refused(label, source)
        _log.warning(
            "feedback refused: its sender is not in feedback.allow_from", extra=event_fields(peer=str(peer))
        )
        return _NOT_ALLOWED_REPLY

    async def learn(self, content: bytes, label: str, source: str, actor: str = "", user: str = "") -> SmtpReply:
        """Learn the messages that ``content`` (CRLF line ends) means as ``label``; the reply says what changed.

        ``source`` is the name of the listener, ``actor`` the client or the user who teaches, and ``user`` the
        address whose own model learns it: the login, or the sender of the mail.
        """
        lessons: list[Lesson] = []
        feedback = FeedbackContent()
        try:
            feedback = await self._parse_feedback(content, label, user)
            spam_filter = await self._runtime.filter_of_teacher(user, label, source)
            insistence = Insistence.NEVER if len(feedback.messages) > 1 else Insistence.AFTER_PAUSE
            async for message in self._messages_to_learn(feedback, spam_filter, label, source):
                lessons.append(await spam_filter.learn(message, label, source, actor, insistence))
                log_lesson(lessons[-1], source, actor)
        except FeedbackRefused as refusal:
            self._observer.feedback_refused(label, source)
            _log.warning("feedback refused: %s", refusal)
            return error_reply(refusal)
        except NbstreamError as error:
            for _ in feedback.messages[len(lessons) + 1 :]:
                self._observer.feedback_failed(label, source)
            # The store itself logs once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "feedback: %d of %d messages learned: %s", len(lessons), len(feedback.messages), error)
            return error_reply(error)
        if len(lessons) == 1:
            return SmtpReply(250, f"2.0.0 {describe_lesson(lessons[0])}; id={lessons[0].after.id}")
        return SmtpReply(250, f"2.0.0 {len(lessons)} messages as {label}: {describe_lessons(lessons)}")

    async def _parse_feedback(self, content: bytes, label: str, user: str) -> FeedbackContent:
        if not self._runtime.knows_teacher(user):
            raise FeedbackRefused(
                "Users have own models, and this mail does not say whose lesson it is: its sender is no address"
            )
        arguments = (content, label, self._addresses.all, self._message_reader, user)
        return await in_thread_if_large(len(content), parse_feedback_mail, *arguments)

    async def _messages_to_learn(
        self, feedback: FeedbackContent, spam_filter: Filter, label: str, source: str
    ) -> AsyncIterator[LearnableMessage]:
        """Yield the messages, parsed one at a time, so that the parts of all are never in memory at once."""
        if feedback.id is None:
            for raw in feedback.messages:
                yield await in_thread_if_large(len(raw), self._message_reader.read_taught, raw)
            return
        try:
            checked = await spam_filter.recall(feedback.id)
        except NbstreamError:
            self._observer.feedback_failed(label, source)
            raise
        if checked is None:
            raise FeedbackRefused(
                f"Unknown id {feedback.id}: not remembered any more; forward the message as an attachment"
            )
        yield checked
