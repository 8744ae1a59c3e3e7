"""The delivery of a complete message: check it, decide for its recipients, add the verdict fields, and send it.

Rules: no mail is lost by a check that fails, since ``on_filter_failure`` decides about it. Where the next hop
fails the client gets its reply, or a 451, and keeps the message. Verdict fields that came from outside are always
removed. ``policy.recipient_rules`` decides on the actions, and ``relay.outlet`` carries them out.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import TYPE_CHECKING, Protocol

from nbstream.errors import CheckFailed, NbstreamError, RelayUnavailable
from nbstream.listeners.message_log import log_message
from nbstream.listeners.smtp.error_replies import error_reply
from nbstream.mail import header_fields
from nbstream.mail.lines import split_at_line_ends
from nbstream.mail.message import Message
from nbstream.policy import verdict_fields
from nbstream.policy.actions import Action, ActionKind
from nbstream.policy.incoming_message import with_guarded_first_line, without_verdict_fields
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME, PolicyVerdict, group_recipients
from nbstream.relay.next_hop import DataReplies, Envelope
from nbstream.relay.outlet import DeliveryPart
from nbstream.relay.quarantine import QuarantineNote
from nbstream.wire.smtp_reply import SmtpReply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.filter import Check
    from nbstream.listeners.runtime import Runtime
    from nbstream.policy.recipient_rules import Decision, RecipientGroup
    from nbstream.relay.next_hop import SmtpPath, Transaction
    from nbstream.relay.outlet import Outlet

_log = logging.getLogger(__name__)

_THREAD_BYTES = 256 * 1024  # a larger message is searched, and rewritten, in a thread
_MAX_RECEIVED = 50  # RFC 5321 6.3 asks for at least 100 hops; here a loop passes twice in each round
_RECEIVED_FIELD = re.compile(rb"(?i)\nreceived[ \t]*:")  # "^" in place of the line feed: see docs/experiments.md
_LOOP_REPLY = SmtpReply(554, "5.4.6 Too many hops: this message has more than 50 Received fields")
_REFUSAL_REPLIES = {
    ActionKind.REJECT: SmtpReply(550, "5.7.1 Message refused as spam"),
    ActionKind.DEFER: SmtpReply(451, "4.7.1 Message deferred, please try again later"),
}


class DeliveryObserver(Protocol):
    """What deliveries report, for metrics and others."""

    def connected(self, listener: str, accepted: bool) -> None:
        """A client connected; a listener that is full, or closes, turns it away."""

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered; the verdict is "none" where the check failed."""

    def action_taken(self, action: str) -> None:
        """This action was decided for the recipients of a message that have one policy."""

    def filter_failed(self, reason: str) -> None:
        """One check failed."""

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
        self._filter = runtime.spam_filter
        self._runtime = runtime
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
        check: Check | None = None
        decisions: list[Decision] = []
        try:
            if len(content) > _THREAD_BYTES:
                raw = await asyncio.to_thread(_without_forged_fields, content)
            else:
                raw = _without_forged_fields(content)
            del content  # of a message with forged fields there is a copy now
            check, groups = await self._check(raw, envelope.recipients)
            parts = [DeliveryPart(Action(ActionKind.PASS), (), envelope)]
            if check is not None:
                decisions = [group.decision for group in groups]
                parts = [self._delivery_part(check, group, envelope.sender) for group in groups]
            replies = await self._send_parts(raw, parts, transaction)
        except (NbstreamError, _MessageRefused) as error:
            await transaction.abort()
            _log.warning("message not passed on: %s", error)
            reply = error.reply if isinstance(error, _MessageRefused) else error_reply(error)
            replies = DataReplies((reply,))
        except BaseException:
            await transaction.abort()
            raise
        self._observer.delivered(listener, str(check.verdict) if check else "none")
        _log_delivery(listener, check, decisions, replies, time.perf_counter() - started)
        return DeliveryResult(replies, check)

    async def _check(
        self, raw: bytes, recipients: Sequence[SmtpPath]
    ) -> tuple[Check | None, Sequence[RecipientGroup[SmtpPath]]]:
        """Return the check with the mildest decision, and the groups of recipients with their decisions.

        None and no groups where the check failed and the message passes unmarked.
        """
        groups: list[RecipientGroup[SmtpPath]] = []

        async def decide(check: Check) -> Check:
            groups.extend(await self._recipient_groups(check, recipients))
            return _check_with_decision(check, groups[0].decision)

        try:
            return await self._filter.check(Message(raw, self._runtime.message_limits), decide), groups
        except Exception as error:
            is_fault = not isinstance(error, NbstreamError)
            self._observer.filter_failed("error" if is_fault else "store")
            _log.error("check failed: %s", error, exc_info=is_fault)
            if self._runtime.passes_on_failure:
                return None, ()
            raise CheckFailed("check failed") from error

    async def _recipient_groups(
        self, check: Check, recipients: Sequence[SmtpPath]
    ) -> list[RecipientGroup[SmtpPath]]:
        """Return the recipients in groups that get the same decision, the mildest first."""
        rules = self._runtime.rules
        pairs = [(recipient, rules.treatment_of(recipient.address)) for recipient in recipients]
        policy_verdicts = {rules.default.policy: _policy_verdict(check)}
        for treatment in {treatment.policy: treatment for _, treatment in pairs}.values():
            if treatment.policy not in policy_verdicts:
                policy_verdicts[treatment.policy] = _policy_verdict(
                    await self._filter.decide_for_treatment(check, treatment)
                )
        return group_recipients(pairs, policy_verdicts.__getitem__, can_differ=self._outlet.splits_recipients)

    def _delivery_part(self, check: Check, group: RecipientGroup[SmtpPath], sender: SmtpPath) -> DeliveryPart:
        group_check = _check_with_decision(check, group.decision)
        policy = group.decision.treatment.name if group.has_other_treatments else ""
        fields = verdict_fields.render_verdict_fields(
            group_check.id,
            group_check.verdict,
            group_check.probability,
            group_check.reason,
            model=self._runtime.model_name,
            thresholds=group_check.thresholds,
            policy=policy,
            clues=group_check.clues if self._runtime.shows_clues else (),
        )
        envelope = Envelope(sender, group.recipients)
        note = QuarantineNote(group_check.id, str(group_check.verdict), group_check.probability, policy, envelope)
        return DeliveryPart(group.decision.action, tuple(fields), envelope, note)

    async def _send_parts(
        self, raw: bytes, parts: Sequence[DeliveryPart], transaction: Transaction
    ) -> DataReplies:
        kinds = [part.action.kind for part in parts]
        for kind in kinds:
            self._observer.action_taken(str(kind))
        if not kinds[0].takes_message:
            raise _MessageRefused(_REFUSAL_REPLIES[kinds[0]])
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


def _without_forged_fields(content: bytes) -> bytes:
    """Return the message without verdict fields of others. Raises ``_MessageRefused`` for one that loops."""
    head = split_at_line_ends(content[: header_fields.body_offset(content)])
    received = chain.from_iterable(_RECEIVED_FIELD.finditer(b"\n" + lines) for lines in head)
    if sum(1 for _ in islice(received, _MAX_RECEIVED + 1)) > _MAX_RECEIVED:
        raise _MessageRefused(_LOOP_REPLY)
    return with_guarded_first_line(without_verdict_fields(content))


def _policy_verdict(check: Check) -> PolicyVerdict:
    return PolicyVerdict(check.verdict, check.reason, check.thresholds)


def _check_with_decision(check: Check, decision: Decision) -> Check:
    """Return the check with this decision, or the same check where the decision is already in it."""
    other, name = decision.policy_verdict, decision.treatment.name
    if other == _policy_verdict(check) and name == check.policy:
        return check
    return replace(check, verdict=other.verdict, reason=other.reason, thresholds=other.thresholds, policy=name)


def _log_delivery(
    listener: str, check: Check | None, decisions: Sequence[Decision], replies: DataReplies, seconds: float
) -> None:
    policies = list(dict.fromkeys(decision.treatment.name for decision in decisions))
    log_message(
        listener,
        check,
        seconds,
        action=", ".join(dict.fromkeys(str(decision.action.kind) for decision in decisions)) or None,
        policy=", ".join(policies) if policies not in ([], [DEFAULT_RULE_NAME]) else None,
        reply=str(replies),
    )
