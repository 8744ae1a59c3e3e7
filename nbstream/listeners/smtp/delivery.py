"""The delivery of a complete message: have it decided about, edit its header, and send it.

Rules: ``server.decisions`` decides. If the message goes to the next hop, the client gets the next hop's replies.
If it goes into the quarantine, the client gets a 250 after the file is synced. With a Maildir as the next hop,
each group of recipients gets a file of its own, and either all files are written or none. With SMTP as the next
hop a message has one group, because the transaction has one reply for all recipients. The given transaction is
closed in every case. Where the next hop fails the client gets its reply, or a 451, and keeps the message.

Where the next hop refuses the address of a redirection the reply is a 451: it is not the sender's mistake, and the
sender must not learn the address. An LMTP server refuses an address also after the message.
"""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from nbstream.delivery.maildir import DELIVERED_REPLY, MaildirNextHop
from nbstream.delivery.next_hop import DataReplies, Envelope, SmtpPath, SmtpReply
from nbstream.delivery.quarantine import QuarantineNote
from nbstream.errors import NbstreamError, RelayUnavailable
from nbstream.mail.header_edits import edit_message
from nbstream.policy.sender_lists import Sender
from nbstream.policy.verdict import ActionKind
from nbstream.server.decisions import Decider
from nbstream.server.feedback_mailbox import FeedbackMailbox
from nbstream.server.smtp_replies import ACCEPTED, error_reply, refusal
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.delivery.maildir import MaildirDraft
    from nbstream.delivery.next_hop import NextHop, Transaction
    from nbstream.delivery.quarantine import Quarantine, QuarantinePart
    from nbstream.server.decisions import DecidedRecipients, Decision
    from nbstream.server.message_service import MessageService

_log = logging.getLogger(__name__)


class Delivery:
    """Takes complete messages from a listener to the next hop, to another address, or into the quarantine.

    It goes by the present runtime of the ``service``; ``feedback`` is for mail to the feedback addresses.
    ``replies_to_each``: a client gets a reply for each recipient, as in LMTP.
    """

    def __init__(
        self, service: MessageService, next_hop: NextHop, quarantine: Quarantine, *, replies_to_each: bool = False
    ) -> None:
        runtime, observer = service.runtime, service.metrics
        self.feedback = FeedbackMailbox(runtime, observer.filter_metrics)
        # With a Maildir the recipients of one message can be treated differently.
        can_differ = isinstance(next_hop, MaildirNextHop)
        self._decisions = Decider(runtime, observer, can_differ=can_differ, can_refuse_some=replies_to_each)
        self._listener_name = service.name
        self._next_hop = next_hop
        self._quarantine = quarantine
        self._observer = observer
        self._hides_destination = any(
            runtime.rules.may_take(kind) for kind in (ActionKind.QUARANTINE, ActionKind.REDIRECT)
        )

    async def deliver(
        self,
        content: bytes,
        envelope: Envelope,
        transaction: Transaction,
        origin: Mapping[str, str],
        client: str = "",
        *,
        shows_verdict: bool = False,
    ) -> DataReplies:
        """Check ``content`` (CRLF line ends) and send it on; return the replies to the client.

        ``transaction`` is that of the next hop, with the recipients, and is closed in every case. ``origin`` are
        fields for the log that say where the message comes from, and ``client`` is the address of the host that
        brought it to our mail server, empty where it is not known. ``shows_verdict``: the verdict of the mildest
        policy stands after each reply. Raises nothing but cancellation.
        """
        started = time.perf_counter()
        decided: Decision | None = None
        try:
            sender = Sender(envelope.sender.address, client)
            decided = await self._decisions.decide(content, sender, envelope.recipients, self._listener_name)
            del content  # of a message with fields of ours there is a copy now
            replies = await self._send(decided, envelope, transaction)
        except NbstreamError as error:
            await transaction.abort()
            _log.warning("message not passed on: %s", error)
            replies = DataReplies((error_reply(error),))
        except BaseException:
            await transaction.abort()
            raise
        check = decided.check if decided else None
        details = decided.log_details if decided else {"action": None, "policy": None}
        seconds = time.perf_counter() - started
        self._observer.answered(self._listener_name, check, seconds, **details, reply=str(replies), **origin)
        replies = self._public_replies(replies)
        if check is None or not shows_verdict:
            return replies
        verdict = f" nbstream id={check.id} verdict={check.verdict} probability={check.probability:.6f}"
        return DataReplies(tuple(SmtpReply(reply.code, reply.text + verdict) for reply in replies.replies))

    async def _send(self, decided: Decision, envelope: Envelope, transaction: Transaction) -> DataReplies:
        """Carry the decision out; return one reply, or one for each recipient in the order of the envelope."""
        taken = [group for group in decided.groups if group.action.kind.takes_message]
        refused = [group for group in decided.groups if not group.action.kind.takes_message]
        if taken:
            replies = await self._send_groups(decided, taken, envelope.sender, transaction)
        else:
            await transaction.abort()
            replies = DataReplies((_refusal_reply(refused[0]),))
        if len(decided.groups) == 1 or not refused:
            return replies
        # Recipients differ only where there is one reply for all that are taken.
        refusals = {recipient: _refusal_reply(group) for group in refused for recipient in group.recipients}
        return DataReplies(tuple(refusals.get(recipient, replies.single) for recipient in envelope.recipients))

    async def _send_groups(
        self,
        decided: Decision,
        groups: Sequence[DecidedRecipients],
        sender: SmtpPath,
        transaction: Transaction,
    ) -> DataReplies:
        if all(group.action.kind is ActionKind.QUARANTINE for group in groups):
            return await self._carry_out(decided, groups, sender, transaction)
        started = time.perf_counter()
        try:
            replies = await self._carry_out(decided, groups, sender, transaction)
        except RelayUnavailable:
            self._observer.relayed(["none"], time.perf_counter() - started)
            raise
        self._observer.relayed([str(reply.code) for reply in replies.replies], time.perf_counter() - started)
        return replies

    async def _carry_out(
        self,
        decided: Decision,
        groups: Sequence[DecidedRecipients],
        sender: SmtpPath,
        transaction: Transaction,
    ) -> DataReplies:
        """Hand over the message for the groups, whose actions take it; return the replies to the client.

        The order of the replies is that of the groups, and within each that of its recipients. Raises
        ``RelayUnavailable``.
        """
        if isinstance(self._next_hop, MaildirNextHop):
            await transaction.abort()
            return DataReplies((await self._write_to_maildir(decided, groups, sender, self._next_hop),))
        (group,) = groups
        if group.action.kind is ActionKind.PASS:
            fields, content = await _edited(decided, group)
            return await transaction.data(content, fields)
        await transaction.abort()
        if group.action.kind is ActionKind.QUARANTINE:
            failure = await self._quarantine.write([await _quarantine_part(decided, group, sender)])
            return DataReplies((failure or ACCEPTED,))
        return await self._redirect(decided, group, sender)

    async def _write_to_maildir(
        self,
        decided: Decision,
        groups: Sequence[DecidedRecipients],
        sender: SmtpPath,
        next_hop: MaildirNextHop,
    ) -> SmtpReply:
        drafts: list[MaildirDraft] = []
        quarantined: list[QuarantinePart] = []
        for group in groups:
            if group.action.kind is ActionKind.QUARANTINE:
                quarantined.append(await _quarantine_part(decided, group, sender))
                continue
            is_redirected = group.action.kind is ActionKind.REDIRECT
            recipients = (SmtpPath(group.action.address),) if is_redirected else group.recipients
            fields, content = await _edited(decided, group)
            drafts.append(next_hop.make_draft(sender, recipients, content, _with_lf(fields)))
        failure = await self._quarantine.write(quarantined, drafts)
        return failure or (DELIVERED_REPLY if drafts else ACCEPTED)

    async def _redirect(self, decided: Decision, group: DecidedRecipients, sender: SmtpPath) -> DataReplies:
        transaction = await self._next_hop.begin(sender)
        try:
            reply = await transaction.rcpt(SmtpPath(group.action.address))
            if reply.accepted:
                fields, content = await _edited(decided, group)
                replies = await transaction.data(content, fields)
                reply = replies.single
                if reply.accepted or not self._next_hop.answers_each_recipient:
                    return replies
        except BaseException:
            await transaction.abort()
            raise
        await transaction.abort()
        raise RelayUnavailable(f"the next hop refuses {group.action}: {reply}")

    def _public_replies(self, replies: DataReplies) -> DataReplies:
        """Return the replies as the client gets them.

        Where mail may go into the quarantine or to another address, the reply to all mail that is taken is the
        same: the next hop's own would tell who gets it that their mail went on, and that of an LMTP server names
        the recipient.
        """
        if not self._hides_destination:
            return replies
        return DataReplies(tuple(ACCEPTED if reply.accepted else reply for reply in replies.replies))


def _refusal_reply(group: DecidedRecipients) -> SmtpReply:
    assert group.check is not None
    return refusal(group.action.kind, group.check.id)


async def _quarantine_part(decided: Decision, group: DecidedRecipients, sender: SmtpPath) -> QuarantinePart:
    check = group.check
    assert check is not None
    # The reason is another one where the list is that of a user of whom the others are not to know.
    by_list = check.listed is not None and check.reason == str(check.listed)
    envelope = Envelope(sender, group.recipients)
    note = QuarantineNote(check.id, str(check.verdict), check.probability, group.rule, envelope, by_list)
    fields, content = await _edited(decided, group)
    return note, _with_lf(fields), content


async def _edited(decided: Decision, group: DecidedRecipients) -> tuple[bytes, bytes]:
    """Return the fields that go on top of the message for a group, and the message."""
    edits = group.edits.after_removal(decided.removed_names)
    return await in_thread_if_large(len(decided.content), edit_message, decided.content, edits)


def _with_lf(fields: bytes) -> bytes:
    return fields.replace(b"\r\n", b"\n")
