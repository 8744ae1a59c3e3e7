"""Feedback by mail: a message sent to the spam or the ham address is learned as that.

Rules: only from allowed networks; 250 only when every message that is meant is durably learned; a repeat
changes nothing, so after a 451 the client may send the same again.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import NbstreamError, Reply
from nbstream.mail import headers
from nbstream.mail.forward import messages_meant
from nbstream.mail.message import Message
from nbstream.policy import header

if TYPE_CHECKING:
    from nbstream.filter import Filter, Lesson
    from nbstream.mail.mime import Limits

_log = logging.getLogger(__name__)

MAX_MESSAGES = 1000
"""So many messages may be attached to one feedback mail."""

_THREAD_BYTES = 256 * 1024
_TOO_MANY = Reply(552, f"5.3.4 More than {MAX_MESSAGES} messages attached, please send fewer at a time")

_NOTHING = Reply(550, "5.6.0 This report carries no message to learn from")
_STRANGER = Reply(550, "5.7.1 Feedback is not accepted from here")

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


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
        try:
            address = ipaddress.ip_address(host.partition("%")[0])
        except ValueError:
            return False
        mapped = getattr(address, "ipv4_mapped", None)
        return any((mapped or address) in network for network in self._params.allow_from)

    def refuse(self, label: str, source: str) -> Reply:
        """The answer to feedback from a peer that is not allowed."""
        self._observer.feedback_refused(label, source)
        _log.warning("feedback refused: its sender is not in feedback.allow_from")
        return _STRANGER

    async def learn(self, content: bytes, label: str, source: str, actor: str) -> Reply:
        """Learn what ``content`` (CRLF line ends) means as ``label``; the reply says what changed.

        ``actor`` is the peer's address.
        """
        if len(content) > _THREAD_BYTES:
            meant = await asyncio.to_thread(messages_meant, content, MAX_MESSAGES)
        else:
            meant = messages_meant(content, MAX_MESSAGES)
        if not meant:
            self._observer.feedback_refused(label, source)
            return _TOO_MANY if meant is None else _NOTHING
        lessons: list[Lesson] = []
        for raw in meant:
            message = Message.parse(headers.strip(raw, header.VERDICT_FIELDS), self._params.limits)
            try:
                lessons.append(await self._filter.learn(message, label, source, actor))
            except NbstreamError as error:
                for _ in meant[len(lessons) + 1 :]:
                    self._observer.teaching_failed(label, source)
                _log.warning("feedback: %d of %d messages learned: %s", len(lessons), len(meant), error)
                return error.reply
            _log_lesson(lessons[-1], source)
        return Reply(250, f"2.0.0 {_summary(lessons, label)}")


def _summary(lessons: Sequence[Lesson], label: str) -> str:
    if len(lessons) == 1:
        lesson = lessons[0]
        return (
            f"{lesson.outcome} as {label}: P(spam) {lesson.before.probability:.4f} -> "
            f"{lesson.after.probability:.4f}, {lesson.after.state}; id={lesson.after.id}"
        )
    counts: dict[str, int] = {}
    for lesson in lessons:
        counts[str(lesson.outcome)] = counts.get(str(lesson.outcome), 0) + 1
    told = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    return f"{len(lessons)} messages as {label}: {told}; {lessons[-1].after.state}"


def _log_lesson(lesson: Lesson, source: str) -> None:
    fields = {
        "source": source,
        "id": lesson.after.id,
        "label": lesson.label,
        "outcome": str(lesson.outcome),
        "before": round(lesson.before.probability, 6),
        "after": round(lesson.after.probability, 6),
    }
    _log.info("feedback", extra={"fields": fields})
