"""Feedback by mail: a message that is sent to the spam address or the ham address is learned as spam or ham.

Rules: feedback is taken only from clients that may teach. The reply is a 250 only when every message that is meant
is durably learned. A repeat within ten minutes changes nothing: after a 451 the client may send the same again. A
later one reinforces, if the verdict still contradicts the label and the mail means one message only: of several,
the first may have been learned before the 451, however late the client's queue sends the mail again. Where users
have own models, nobody's lesson is refused: it would become everybody's. ``server.feedback_mailbox`` says which
messages are meant.
"""

from __future__ import annotations

import logging
import re
from collections import Counter
from collections.abc import AsyncIterator, Collection
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.columns import label_of
from nbstream.delivery.next_hop import SmtpReply
from nbstream.errors import FeedbackRefused, FeedbackTooLarge, NbstreamError, StoreRefuses
from nbstream.filter import describe_lesson, describe_lessons, describe_outcome
from nbstream.logs import event_fields
from nbstream.mail import forwards
from nbstream.mail.message import Message
from nbstream.policy.feedback_source import Reinforcement
from nbstream.policy.header import MessageReader, parse_own_id
from nbstream.server.metrics import log_lesson
from nbstream.server.smtp_replies import error_reply
from nbstream.threads import in_thread_if_large
from nbstream.tokens import html

if TYPE_CHECKING:
    from nbstream.filter import FeedbackResult, Filter, LessonMessage
    from nbstream.filter.metrics import FilterMetrics
    from nbstream.server.connections import Peer
    from nbstream.server.runtime import Runtime


# What a feedback mail teaches: some messages, or the id of one message that was checked.
#
# The first of these rules that fits holds:
#
# 1. A mail with attached messages teaches these. An abuse report without a message teaches the message of the id
#    in the header that it carries. The type of a report must agree with the label. The attachments of a redirected
#    mail do not count, because its first sender chose them; but a report, or a mail that had been written to a
#    feedback address, teaches what it carries even when it was redirected.
# 2. A redirected mail is itself the message to learn. So is a mail with our own verdict field in its header that
#    was not written to a feedback address: it went through here and came back unchanged.
# 3. A mail whose text quotes one id teaches the message of this id.
# 4. A mail that was written to a feedback address, or that its own writer sends here as a forward, signed or to
#    nobody (Bcc), and that carries nothing to learn, is refused, and so is one that is encrypted. Learned as it
#    is, it would teach that its writer, with the address and the mail program, is spam.
# 5. Any other mail is itself the message, as a script or ``sendmail`` sends it.
#
# An id in a text is as trustworthy as the writer of the text. A spammer who knows another message to the same
# reader in full, for example from a mailing list, could quote its id. Where the mail program of the reader quotes
# the true field too, there are two ids, and the mail is refused. A message that is forwarded as an attachment is
# always safe.

# The ids in the text of a mail: our own verdict field, quoted in an inline forward or in a reply to one.
#
# Rules: only the text is searched, never an attachment. Only the name of the field with an id of the exact shape
# behind it counts, however it is quoted and wrapped, in plain text or in HTML.

_QUOTE_MARKS = re.compile(r"(?m)^[\s>|]+")
# The longest value that we write has 270 characters before the name of the model, and no colon. With these bounds
# no search runs into the next field, and the time for a text of nothing but beginnings stays linear.
_QUOTED_VALUE = r" ?:[^:]{0,300}?\bmodel ?= ?[a-z0-9._-]+ ?; ?id ?= ?([a-z2-7]{24})(?![a-z0-9])"


@lru_cache(maxsize=4)
def _quoted_field(name: str) -> re.Pattern[str]:
    return re.compile(re.escape(name) + _QUOTED_VALUE)


def quoted_ids(message: Message, own_field: str) -> frozenset[str]:
    """Return the distinct ids that the text of ``message`` quotes from fields of the name ``own_field``."""
    name = own_field.lower()
    ids: set[str] = set()
    for part in message.parts:
        if part.content_type in {"text/plain", "text/html"} and part.disposition != "attachment":
            text = part.text.lower()
            if name in text:
                visible_text = html.visible_text(text) if part.content_type == "text/html" else text
                ids.update(_quoted_field(name).findall(" ".join(_QUOTE_MARKS.sub("", visible_text).split())))
    return frozenset(ids)


MAX_MESSAGES = 1000
"""The largest number of messages that one feedback mail may have attached."""

_LABEL_BY_REPORT_TYPE = {
    "abuse": "spam",
    "fraud": "spam",
    "virus": "spam",
    "not-spam": "ham",
}  # RFC 5965 7.3, RFC 6430
_ATTACH_ADVICE = "please forward it as an attachment"


class FeedbackContent(NamedTuple):
    """What a feedback mail teaches: raw messages (CRLF line ends), or the id of one checked message."""

    messages: tuple[bytes, ...] = ()
    id: str | None = None


def parse_feedback_mail(
    content: bytes, label: str, addresses: Collection[str], reader: MessageReader, sender: str = ""
) -> FeedbackContent:
    """Return what ``content`` (CRLF line ends) teaches, which was sent to the address of ``label``.

    ``addresses`` are the canonical feedback addresses, ``reader`` says how much of a message is looked at and
    which field carries the id, and ``sender`` is the address of who teaches, empty where it is not known. Raises
    ``FeedbackRefused``.
    """
    if not content.strip():
        raise FeedbackRefused("This mail is empty, there is nothing to learn from")
    carried = forwards.parse_forwarded_content(content, MAX_MESSAGES)
    if carried is None:
        raise FeedbackTooLarge(f"More than {MAX_MESSAGES} messages attached, please send fewer at a time")
    _require_matching_label(carried.feedback_type, label)
    is_written_to_us = forwards.is_addressed_to(content, addresses)
    counts_attachments = (
        carried.feedback_type is not None or is_written_to_us or not forwards.is_redirected(content)
    )
    is_certain = carried.feedback_type is not None or is_written_to_us
    if (
        carried.messages
        and counts_attachments
        and not is_certain
        and _own_ids(Message(content, reader.limits), reader.marks.own_field)
    ):
        raise FeedbackRefused(
            "This mail was checked here and has a message attached: it cannot be told which of the two is meant; "
            f"{_ATTACH_ADVICE}"
        )
    if carried.messages and counts_attachments:
        if not all(map(bytes.strip, carried.messages)):
            raise FeedbackRefused("An attached message is empty, there is nothing to learn from")
        return FeedbackContent(carried.messages)
    if carried.feedback_type is not None:
        return FeedbackContent(id=_reported_id(carried.headers_only, reader))
    return _content_without_attachment(content, reader, sender, is_written_to_us=is_written_to_us)


def _require_matching_label(feedback_type: str | None, label: str) -> None:
    report_label = _LABEL_BY_REPORT_TYPE.get(feedback_type or "", label)
    if label_of(report_label) != label_of(label):
        raise FeedbackRefused(
            f"This report says {feedback_type}, but this address learns {label}: "
            f"send it to the one for {report_label}"
        )


def _reported_id(headers: tuple[bytes, ...], reader: MessageReader) -> str:
    own_field = reader.marks.own_field
    message_id = _single_id(
        set().union(*(_own_ids(Message(header, reader.limits), own_field) for header in headers))
    )
    if message_id is None:
        missing = f"neither a message nor the {own_field} field of one" if headers else "no message"
        raise FeedbackRefused(f"This report carries {missing} to learn from")
    return message_id


def _content_without_attachment(
    content: bytes, reader: MessageReader, sender: str, *, is_written_to_us: bool
) -> FeedbackContent:
    mail, own_field = Message(content, reader.limits), reader.marks.own_field
    if forwards.is_redirected(content) or (_own_ids(mail, own_field) and not is_written_to_us):
        return FeedbackContent((content,))
    message_id = _single_id(quoted_ids(mail, own_field))
    if message_id is not None:
        return FeedbackContent(id=message_id)
    if is_written_to_us:
        raise FeedbackRefused(
            f"This mail neither attaches a message nor quotes its {own_field} field; "
            f"to teach one, {_ATTACH_ADVICE}"
        )
    if forwards.is_opaque(content):
        raise FeedbackRefused(f"This mail is encrypted, or signed in a form that hides its text; {_ATTACH_ADVICE}")
    if forwards.is_own_forward(content, sender):
        raise FeedbackRefused(
            "This mail carries no message to learn from, and you wrote it yourself; to teach a message, "
            f"{_ATTACH_ADVICE}"
        )
    return FeedbackContent((content,))


def _single_id(ids: Collection[str]) -> str | None:
    """Return the only id, or None where there is none. Raises ``FeedbackRefused`` for several."""
    if len(ids) > 1:
        raise FeedbackRefused(
            f"This mail quotes the ids of {len(ids)} messages, instead of the one that is meant; {_ATTACH_ADVICE}"
        )
    return next(iter(ids), None)


def _own_ids(message: Message, own_field: str) -> set[str]:
    ids = (parse_own_id(field.text) for field in message.fields if field.name == own_field.lower())
    return {message_id for message_id in ids if message_id is not None}


_log = logging.getLogger(__name__)

_NOT_ALLOWED_REPLY = SmtpReply(550, "5.7.1 Feedback is not accepted from here")


class FeedbackMailbox:
    """Learns from mail that is sent to the feedback addresses."""

    def __init__(self, runtime: Runtime, observer: FilterMetrics) -> None:
        self._runtime = runtime
        self._observer = observer

    def label_of(self, address: str) -> str | None:
        """Return the label that an address stands for; None for every other recipient."""
        return self._runtime.feedback_addresses.label_of(address)

    def refuse(self, label: str, source: str, peer: Peer) -> SmtpReply:
        """Report feedback from a client that may not teach, and return the reply to it."""
        self._observer.feedback_refused(label_of(label), source)
        _log.warning(
            "feedback refused: the client is not in feedback.allow_from", extra=event_fields(peer=str(peer))
        )
        return _NOT_ALLOWED_REPLY

    async def learn(self, content: bytes, label: str, source: str, actor: str = "", user: str = "") -> SmtpReply:
        """Learn the messages that ``content`` (CRLF line ends) means as ``label``; the reply says what changed.

        ``source`` is the name of the listener, ``actor`` the client or the user who teaches, and ``user`` the
        address whose own model learns it: the login, or the sender of the mail.
        """
        lessons: list[FeedbackResult] = []
        feedback = FeedbackContent()
        try:
            feedback = await self._parse_feedback(content, label, user)
            spam_filter = await self._runtime.filter_of_teacher(user, label, source)
            reinforcement = Reinforcement.NEVER if len(feedback.messages) > 1 else Reinforcement.AFTER_PAUSE
            async for message in self._messages_to_learn(feedback, spam_filter, label, source):
                lessons.append(await spam_filter.learn(message, label, source, actor, reinforcement))
                log_lesson(lessons[-1], source, actor)
        except FeedbackRefused as refusal:
            self._observer.feedback_refused(label_of(label), source)
            _log.warning("feedback refused: %s", refusal)
            return error_reply(refusal)
        except NbstreamError as error:
            for _ in feedback.messages[len(lessons) + 1 :]:
                self._observer.feedback_failed(label_of(label), source)
            # The store itself logs once that Redis refuses to write.
            level = logging.DEBUG if isinstance(error, StoreRefuses) else logging.WARNING
            _log.log(level, "feedback: %d of %d messages learned: %s", len(lessons), len(feedback.messages), error)
            return error_reply(error)
        if len(lessons) == 1:
            return SmtpReply(250, f"2.0.0 {describe_lesson(lessons[0])}; id={lessons[0].after.id}")
        outcomes = Counter(map(describe_outcome, lessons))
        return SmtpReply(250, f"2.0.0 {describe_lessons(outcomes, lessons[-1])}")

    async def _parse_feedback(self, content: bytes, label: str, user: str) -> FeedbackContent:
        if not self._runtime.knows_teacher(user):
            raise FeedbackRefused(
                "Users have own models, and this mail does not say whose lesson it is: its sender is no address"
            )
        arguments = (content, label, self._runtime.feedback_addresses.all, self._runtime.message_reader, user)
        return await in_thread_if_large(len(content), parse_feedback_mail, *arguments)

    async def _messages_to_learn(
        self, feedback: FeedbackContent, spam_filter: Filter, label: str, source: str
    ) -> AsyncIterator[LessonMessage]:
        """Yield the messages, parsed one at a time, so that the parts of all are never in memory at once."""
        if feedback.id is None:
            for raw in feedback.messages:
                yield await in_thread_if_large(len(raw), self._runtime.message_reader.read_taught, raw)
            return
        try:
            checked = await spam_filter.recall(feedback.id)
        except NbstreamError:
            self._observer.feedback_failed(label_of(label), source)
            raise
        if checked is None:
            raise FeedbackRefused(
                f"Unknown id {feedback.id}: not remembered any more; forward the message as an attachment"
            )
        yield checked
