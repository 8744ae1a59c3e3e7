"""The answer to a complete message of the milter protocol: what changes in it, and what becomes of it.

Rules: ``server.decisions`` decides, as for SMTP. The mail server carries the decision out: it holds a message
in its own queue for the action ``quarantine``, and sends a redirected one to its new recipient. It has one copy of
a message for all recipients, so the mildest decision holds for all of them. In place of an action that the mail
server does not offer the message passes, as by the action ``pass``. The mail server also refuses mail that loops,
by the limit that it is given.

A message to a feedback address is learned, and discarded only when the lesson is durable. The mail server says
whether its client has authenticated: a user may teach, and anybody else has to be in ``feedback.allow_from``.

The protocol edits a header by name and index. A field is deleted by its index among those of its name, the last
one first: then the index of none of the others changes. The new fields go below the Received field that the mail
server itself puts on top, and which the filter never sees. So a message that is taught later is the one that was
checked: what stands above our fields came after the check.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import SmtpReply
from nbstream.errors import NbstreamError
from nbstream.listeners.milter.codec import (
    CONTINUE,
    DISCARD,
    MilterActions,
    MilterSteps,
    add_recipient,
    change_header,
    delete_recipient,
    hold,
    insert_header,
    refusal,
    refusal_text,
)
from nbstream.mail.addresses import canonical_address
from nbstream.mail.header_edits import tagged_value
from nbstream.mail.lines import normalize_line_ends
from nbstream.policy.feedback_source import actor_of_user
from nbstream.policy.sender_lists import Sender
from nbstream.policy.verdict import ActionKind
from nbstream.server import smtp_replies
from nbstream.server.connections import Peer
from nbstream.server.decisions import Decider
from nbstream.server.feedback_mailbox import FeedbackMailbox
from nbstream.server.smtp_replies import TEMPORARY_FAILURE, error_reply
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.listeners.milter.codec import MilterOptions
    from nbstream.listeners.milter.message import MilterContent, MilterSubject
    from nbstream.mail.header_edits import HeaderEdits
    from nbstream.server.decisions import DecidedRecipients, Decision
    from nbstream.server.message_service import MessageService


_log = logging.getLogger(__name__)

_FEEDBACK_MIXED_WITH_MAIL = SmtpReply(550, "5.5.3 Feedback travels alone, send it in a message of its own")
# Else bounces and automatic answers would teach, with the words of whoever caused them.
_FEEDBACK_ADDRESS_AS_SENDER = SmtpReply(550, "5.7.1 Feedback addresses send no mail")
_FEEDBACK_WITHOUT_SENDER = SmtpReply(550, "5.7.1 Feedback needs a sender")
_TOO_MANY_FORGED_FIELDS = SmtpReply(554, "5.6.0 Message has too many header fields that filters write")
_NEEDED = {
    ActionKind.QUARANTINE: MilterActions.QUARANTINE,
    ActionKind.REDIRECT: MilterActions.ADDRCPT | MilterActions.DELRCPT,
}


@dataclass(frozen=True, slots=True)
class MilterSender:
    """Who brought a message to the mail server: the SMTP client, and the user as whom it has authenticated.

    Both are empty where the mail server names none. ``queue_id`` is the mail server's name for the message.
    """

    client: str = ""
    user: str = ""
    queue_id: str = ""

    @property
    def log_details(self) -> dict[str, str | None]:
        """The fields of the line in the log."""
        return {"queue_id": self.queue_id or None, "client": self.client or None, "user": self.user or None}


class MilterAnswers:
    """Answers messages by the present runtime of the listener's service."""

    def __init__(self, service: MessageService) -> None:
        self._name, self._observer = service.name, service.metrics
        self._decisions = Decider(service.runtime, service.metrics, can_differ=False, refuses_loops=False)
        self._feedback = FeedbackMailbox(service.runtime, service.metrics.filter_metrics)
        self._teachers = service.teachers

    async def answer(
        self, message: MilterContent, sender: MilterSender, peer: Peer, options: MilterOptions
    ) -> Sequence[bytes]:
        """Return the replies to the end of a message with at least one recipient; the last one decides.

        ``peer`` is the mail server, and ``options`` are those that were agreed on with it. Raises nothing but
        cancellation.
        """
        labels = {self._feedback.label_of(recipient.address) for recipient in message.recipients}
        try:
            if self._feedback.label_of(message.sender) is not None:
                return [refusal(_FEEDBACK_ADDRESS_AS_SENDER)]
            if labels == {None}:
                return await self._decide(message, sender, peer, options)
            (label,) = labels if len(labels) == 1 else (None,)
            if label is None:
                return [refusal(_FEEDBACK_MIXED_WITH_MAIL)]
            if not message.sender:
                return [refusal(_FEEDBACK_WITHOUT_SENDER)]
            return [await self._learn(await _content_of(message), label, sender, peer)]
        except Exception:  # noqa: BLE001 - a fault in an answer must not lose mail or end the session
            _log.exception("milter: a message got no reply")
            return [refusal(TEMPORARY_FAILURE)]

    async def _decide(
        self, message: MilterContent, sender: MilterSender, peer: Peer, options: MilterOptions
    ) -> Sequence[bytes]:
        started = time.perf_counter()
        decided: Decision | None = None
        impossible = [kind for kind, needed in _NEEDED.items() if needed & ~options.actions]
        try:
            whose = Sender(message.sender, sender.client, sender.user, self._teachers.may_teach(peer))
            decided = await self._decisions.decide(
                await _content_of(message), whose, message.recipients, self._name, impossible
            )
            group = decided.groups[0]
            subject = await _subject_change(group.edits.subject_tag, message, options)
            answer = _render(group, subject, message, options)
        except NbstreamError as error:
            _log.warning("milter: message not passed on: %s", error)
            answer = [refusal(error_reply(error))]
        check = decided.check if decided else None
        details = decided.log_details if decided else {"action": None, "policy": None}
        reply = refusal_text(answer[-1])
        seconds = time.perf_counter() - started
        self._observer.answered(self._name, check, seconds, **details, reply=reply, **sender.log_details)
        return answer

    async def _learn(self, content: bytes, label: str, sender: MilterSender, peer: Peer) -> bytes:
        """Learn ``content``, which was sent to the feedback address of the label."""
        client = Peer(sender.client)
        # Of an authenticated user the mail server knows who it is; any other client may be a stranger.
        must_be_known = self._teachers.checks_forwarded or not sender.user
        if not self._teachers._replace(checks_forwarded=must_be_known).may_teach_for(peer, client):
            return refusal(self._feedback.refuse(label, self._name, client))
        actor = actor_of_user(sender.user) if sender.user else sender.client
        reply = await self._feedback.learn(content, label, self._name, actor, sender.user)
        return DISCARD if reply.accepted else refusal(reply)


async def _content_of(message: MilterContent) -> bytes:
    """Return the message with CRLF line ends."""
    content = message.take_content()
    return await in_thread_if_large(len(content), normalize_line_ends, content)


async def _subject_change(tag: str, message: MilterContent, options: MilterOptions) -> Sequence[bytes]:
    """Return the change of the Subject, if there is one."""
    if not tag:
        return []
    has_leading_space = MilterSteps.HDR_LEADSPC in options.steps
    size = len(message.subject.value) if message.subject else 0
    changed = await in_thread_if_large(
        size, subject_change, message.subject, tag, has_leading_space=has_leading_space
    )
    return [changed] if changed else []


def _render(
    group: DecidedRecipients, subject: Sequence[bytes], message: MilterContent, options: MilterOptions
) -> list[bytes]:
    kind, edits = group.action.kind, group.edits
    if not kind.takes_message:
        assert group.check is not None
        return [refusal(smtp_replies.refusal(kind, group.check.id))]
    has_leading_space = MilterSteps.HDR_LEADSPC in options.steps
    changes = header_changes(edits, message.take_field_names(), has_leading_space=has_leading_space)
    if changes is None:
        return [refusal(_TOO_MANY_FORGED_FIELDS)]
    answer: list[bytes] = [*changes, *subject]
    if kind is ActionKind.REDIRECT:
        answer += _redirection(message, group.action.address)
    elif kind is ActionKind.QUARANTINE and group.check:
        answer.append(hold(f"nbstream: {group.check.verdict}, id={group.check.id}"))
    return [*answer, CONTINUE]


def _redirection(message: MilterContent, address: str) -> list[bytes]:
    """Return the changes that make ``address`` the only recipient.

    A recipient with this address stays, and is not added: the mail server would delete what was added together
    with it, and a message without a recipient is gone.
    """
    wanted = canonical_address(address)
    others = [
        given
        for recipient, given in zip(message.recipients, message.given_recipients, strict=True)
        if wanted not in {canonical_address(recipient.address), canonical_address(given)}
    ]
    is_recipient = len(others) < len(message.recipients)
    added: list[bytes] = [] if is_recipient else [add_recipient(f"<{address}>")]
    return [*added, *map(delete_recipient, others)]


MAX_DELETED_FIELDS = 1000
"""No message has so many. Postfix reads its header anew for each of them, so 100,000 would stop it for minutes."""

_BELOW_OWN_RECEIVED = 1


def header_changes(edits: HeaderEdits, field_names: bytes, *, has_leading_space: bool) -> list[bytes] | None:
    """Return what changes a header by ``edits``, in the order in which it has to be sent.

    ``field_names`` are those of ``MilterContent.take_field_names``. None where more than ``MAX_DELETED_FIELDS``
    would have to be deleted. The Subject is for ``subject_change``.
    """
    counts = {name: field_names.count(b"\0%s\0" % name.lower().encode("ascii")) for name in edits.removed_names}
    if sum(counts.values()) > MAX_DELETED_FIELDS:
        return None
    deleted = [change_header(index, name, None) for name, count in counts.items() for index in range(count, 0, -1)]
    space = " " if has_leading_space else ""
    inserted = [
        insert_header(_BELOW_OWN_RECEIVED, name, space + value.replace("\r\n", "\n"))
        for name, value in reversed(edits.added)
    ]
    return [*deleted, *inserted]


def subject_change(subject: MilterSubject | None, tag: str, *, has_leading_space: bool) -> bytes | None:
    """Return what puts the tag before the first Subject, which the message may lack; None where it stays."""
    if subject is None:
        space = " " if has_leading_space else ""
        return insert_header(_BELOW_OWN_RECEIVED, "Subject", space + tag)
    tagged = tagged_value(subject.value, tag)
    if tagged == subject.value:
        return None
    value = tagged.replace(b"\r\n", b"\n")
    # The name as it is written: messages are known by it too.
    return change_header(1, subject.name, value if has_leading_space else value.removeprefix(b" "))
