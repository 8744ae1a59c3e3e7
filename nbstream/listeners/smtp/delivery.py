"""The delivery of a complete message: have it decided about, edit its header, and send it.

Rules: ``server.decisions`` decides, and ``delivery.outlet`` carries out what it decided. Where the next hop fails
the client gets its reply, or a 451, and keeps the message.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.delivery.next_hop import DataReplies, Envelope, SmtpReply
from nbstream.delivery.outlet import DeliveryPart
from nbstream.delivery.quarantine import QuarantineNote
from nbstream.errors import NbstreamError, RelayUnavailable
from nbstream.policy.sender_lists import Sender
from nbstream.policy.verdict import ActionKind
from nbstream.server.decisions import Decider
from nbstream.server.smtp_replies import ACCEPTED, error_reply, refusal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.delivery.next_hop import SmtpPath, Transaction
    from nbstream.delivery.outlet import Outlet
    from nbstream.filter import Check
    from nbstream.server.decisions import DecidedRecipients, Decision
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The replies to the client, and the check, with the verdict of the mildest policy where there are several.

    The check is None where there was none.
    """

    replies: DataReplies
    check: Check | None = None

    @property
    def replies_with_verdict(self) -> DataReplies:
        """The replies with the verdict after each, for programs that ask for it."""
        check = self.check
        if check is None:
            return self.replies
        verdict = f" nbstream id={check.id} verdict={check.verdict} probability={check.probability:.6f}"
        return DataReplies(tuple(SmtpReply(reply.code, reply.text + verdict) for reply in self.replies.replies))


class Delivery:
    """Takes complete messages from a listener to their destinations.

    ``replies_to_each``: a client gets a reply for each recipient, as in LMTP.
    """

    def __init__(
        self, runtime: Runtime, outlet: Outlet, observer: DeliveryMetrics, *, replies_to_each: bool = False
    ) -> None:
        self._decisions = Decider(
            runtime, observer, can_differ=outlet.splits_recipients, can_refuse_some=replies_to_each
        )
        self._outlet = outlet
        self._observer = observer
        self._hides_destination = any(
            runtime.rules.may_take(kind) for kind in (ActionKind.QUARANTINE, ActionKind.REDIRECT)
        )

    async def deliver(
        self,
        content: bytes,
        envelope: Envelope,
        transaction: Transaction,
        listener: str,
        origin: Mapping[str, str],
        client: str = "",
    ) -> DeliveryResult:
        """Check ``content`` (CRLF line ends) and send it on.

        ``transaction`` is that of the next hop, with the recipients, and is closed in every case. ``origin`` are
        fields for the log that say where the message comes from, and ``client`` is the address of the host that
        brought it to our mail server, empty where it is not known. Raises nothing but cancellation.
        """
        started = time.perf_counter()
        decided: Decision | None = None
        try:
            sender = Sender(envelope.sender.address, client)
            decided = await self._decisions.decide(content, sender, envelope.recipients, listener)
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
        self._observer.answered(listener, check, seconds, **details, reply=str(replies), **origin)
        return DeliveryResult(self._public_replies(replies), check)

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
        # Recipients differ only where the outlet has one reply for all that it takes.
        refusals = {recipient: _refusal_reply(group) for group in refused for recipient in group.recipients}
        return DataReplies(tuple(refusals.get(recipient, replies.single) for recipient in envelope.recipients))

    async def _send_groups(
        self,
        decided: Decision,
        groups: Sequence[DecidedRecipients],
        sender: SmtpPath,
        transaction: Transaction,
    ) -> DataReplies:
        parts = [_delivery_part(decided, group, sender) for group in groups]
        if all(group.action.kind is ActionKind.QUARANTINE for group in groups):
            return await self._outlet.send(decided.content, parts, transaction)
        started = time.perf_counter()
        try:
            replies = await self._outlet.send(decided.content, parts, transaction)
        except RelayUnavailable:
            self._observer.relayed(["none"], time.perf_counter() - started)
            raise
        self._observer.relayed([str(reply.code) for reply in replies.replies], time.perf_counter() - started)
        return replies

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


def _delivery_part(decided: Decision, group: DecidedRecipients, sender: SmtpPath) -> DeliveryPart:
    envelope, check = Envelope(sender, group.recipients), group.check
    note = None
    if check is not None:
        # The reason is another one where the list is that of a user of whom the others are not to know.
        by_list = check.listed is not None and check.reason == str(check.listed)
        note = QuarantineNote(check.id, str(check.verdict), check.probability, group.rule, envelope, by_list)
    return DeliveryPart(group.action, group.edits.after_removal(decided.removed_names), envelope, note)
