"""The delivery of a complete message: have it decided about, edit its header, and send it.

Rules: ``listeners.decisions`` decides, and ``relay.outlet`` carries out what it decided. Where the next hop fails
the client gets its reply, or a 451, and keeps the message.
"""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import NbstreamError, RelayUnavailable
from nbstream.listeners.decisions import DecisionObserver, MessageDecisions
from nbstream.listeners.message_log import log_message
from nbstream.listeners.smtp.error_replies import error_reply
from nbstream.listeners.smtp.replies import REFUSALS
from nbstream.policy.actions import ActionKind
from nbstream.relay.next_hop import DataReplies, Envelope
from nbstream.relay.outlet import DeliveryPart
from nbstream.relay.quarantine import QuarantineNote
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter import Check
    from nbstream.listeners.decisions import DecidedMessage, DecidedRecipients
    from nbstream.listeners.runtime import Runtime
    from nbstream.relay.next_hop import SmtpPath, Transaction
    from nbstream.relay.outlet import Outlet

_log = logging.getLogger(__name__)


class DeliveryObserver(DecisionObserver, Protocol):
    """What deliveries report, for metrics and others."""

    def connected(self, listener: str, accepted: bool) -> None:
        """A client connected; a listener that is full, or closes, turns it away."""

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered; the verdict is "none" where the check failed."""

    def relayed(self, codes: Sequence[str], seconds: float) -> None:
        """The next hop answered a message with these codes ("none" where it went away before)."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The replies to the client, and the check, with the verdict of the mildest policy where there are several.

    The check is None where there was none.
    """

    replies: DataReplies
    check: Check | None = None

    @property
    def reply(self) -> SmtpReply:
        """The reply to a client that gets one for all recipients."""
        return self.replies.single

    @property
    def reply_with_verdict(self) -> SmtpReply:
        """The reply with the verdict after it, for clients that may teach."""
        check = self.check
        if check is None:
            return self.reply
        verdict = f" nbstream id={check.id} verdict={check.verdict} probability={check.probability:.6f}"
        return SmtpReply(self.reply.code, self.reply.text + verdict)


class Delivery:
    """Takes complete messages from the SMTP listener to their destinations."""

    def __init__(self, runtime: Runtime, outlet: Outlet, observer: DeliveryObserver) -> None:
        self._decisions = MessageDecisions(runtime, observer, can_differ=outlet.splits_recipients)
        self._outlet = outlet
        self._observer = observer

    async def deliver(
        self, content: bytes, envelope: Envelope, transaction: Transaction, listener: str
    ) -> DeliveryResult:
        """Check ``content`` (CRLF line ends) and send it on.

        ``transaction`` is that of the next hop, with the recipients, and is closed in every case. Raises nothing
        but cancellation.
        """
        started = time.perf_counter()
        decided: DecidedMessage | None = None
        try:
            decided = await self._decisions.decide(content, envelope.recipients)
            del content  # of a message with fields of ours there is a copy now
            replies = await self._send(decided, envelope.sender, transaction)
        except (NbstreamError, _MessageRefused) as error:
            await transaction.abort()
            _log.warning("message not passed on: %s", error)
            reply = error.reply if isinstance(error, _MessageRefused) else error_reply(error)
            replies = DataReplies((reply,))
        except BaseException:
            await transaction.abort()
            raise
        check = decided.check if decided else None
        self._observer.delivered(listener, check.outcome if check else "none")
        details = decided.log_details if decided else {"action": None, "policy": None}
        log_message(listener, check, time.perf_counter() - started, **details, reply=str(replies))
        return DeliveryResult(replies, check)

    async def _send(self, decided: DecidedMessage, sender: SmtpPath, transaction: Transaction) -> DataReplies:
        kinds = [group.action.kind for group in decided.groups]
        if not kinds[0].takes_message:
            raise _MessageRefused(REFUSALS[kinds[0]])
        raw, parts = decided.content, [_delivery_part(group, sender) for group in decided.groups]
        if all(kind is ActionKind.QUARANTINE for kind in kinds):
            return await self._outlet.send(raw, parts, transaction)
        started = time.perf_counter()
        try:
            replies = await self._outlet.send(raw, parts, transaction)
        except RelayUnavailable:
            self._observer.relayed(["none"], time.perf_counter() - started)
            raise
        self._observer.relayed([str(reply.code) for reply in replies.replies], time.perf_counter() - started)
        return replies


class _MessageRefused(Exception):
    """The message itself is refused, with this reply."""

    def __init__(self, reply: SmtpReply) -> None:
        super().__init__(str(reply))
        self.reply = reply


def _delivery_part(group: DecidedRecipients, sender: SmtpPath) -> DeliveryPart:
    envelope, check = Envelope(sender, group.recipients), group.check
    note = None
    if check is not None:
        note = QuarantineNote(check.id, str(check.verdict), check.probability, group.treatment, envelope)
    return DeliveryPart(group.action, group.edits, envelope, note)
