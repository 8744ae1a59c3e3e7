"""What happens to a complete message: check it, decide for its recipients, put the verdict on its header, send it.

Rules: a check that fails never costs mail, ``on_filter_failure`` decides; a relay that fails is the hop's own
answer or 451, and the client keeps the message. Verdict fields that came from outside are always removed. What is
to be done, ``policy.recipient_rules`` says; it is done by ``relay.outlet``.
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
from nbstream.relay.next_hop import Envelope
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

_THREAD_BYTES = 256 * 1024  # of header: a larger one is looked through in a thread
_MAX_RECEIVED = (
    50  # RFC 5321 6.3 asks for at least 100 hops; mail that loops through here twice a round stops sooner
)
_RECEIVED_FIELD = re.compile(rb"(?i)\nreceived[ \t]*:")  # by its line feed, a quarter of the time that "^" takes
_LOOP_REPLY = SmtpReply(554, "5.4.6 Too many hops: this message has more than 50 Received fields")
_REFUSAL_REPLIES = {
    ActionKind.REJECT: SmtpReply(550, "5.7.1 Message refused as spam"),
    ActionKind.DEFER: SmtpReply(451, "4.7.1 Message deferred, please try again later"),
}


class DeliveryObserver(Protocol):
    """What deliveries report; metrics are one of the readers."""

    def connected(self, listener: str, accepted: bool) -> None:
        """A client connected; a door that is full, or closes, turns it away."""

    def delivered(self, listener: str, verdict: str) -> None:
        """One message was checked and answered; the verdict is "none" where the check failed."""

    def action_taken(self, action: str) -> None:
        """This was decided for some recipients of a message: all of them, where they have one policy."""

    def filter_failed(self, reason: str) -> None:
        """One check failed."""

    def relayed(self, code: str, seconds: float) -> None:
        """The next hop answered a message with this code ("none" where it went away before)."""


@dataclass(frozen=True, slots=True)
class DeliveryResult:
    """The answer to the client, and the check where there was one: decided by the mildest policy, if many."""

    reply: SmtpReply
    check: Check | None = None

    @property
    def reply_with_verdict(self) -> SmtpReply:
        """The answer with the verdict behind it: for peers whose feedback is believed."""
        check = self.check
        if check is None:
            return self.reply
        told = f" nbstream id={check.id} verdict={check.verdict} probability={check.probability:.6f}"
        return SmtpReply(self.reply.code, self.reply.text + told)


class Delivery:
    """Takes complete messages from a door to where they go."""

    def __init__(self, runtime: Runtime, outlet: Outlet, observer: DeliveryObserver) -> None:
        self._filter = runtime.spam_filter
        self._runtime = runtime
        self._outlet = outlet
        self._observer = observer

    async def deliver(
        self, content: bytes, envelope: Envelope, transaction: Transaction, listener: str
    ) -> DeliveryResult:
        """Check ``content`` (CRLF line ends) and send it on; ``transaction`` has the recipients already.

        Closes the transaction in every case. Raises nothing but cancellation.
        """
        started = time.perf_counter()
        check: Check | None = None
        decided: list[Decision] = []
        try:
            large = header_fields.body_offset(content) > _THREAD_BYTES
            raw = (
                await asyncio.to_thread(_without_forged_fields, content)
                if large
                else _without_forged_fields(content)
            )
            check, found = await self._check(raw, envelope.recipients)
            parts = [DeliveryPart(Action(ActionKind.PASS), (), envelope)]
            if check is not None:
                decided = [group.decision for group in found]
                parts = [self._delivery_part(check, group, envelope.sender) for group in found]
            reply = await self._send_parts(raw, parts, transaction)
        except (NbstreamError, _MessageRefused) as error:
            await transaction.abort()
            _log.warning("message not passed on: %s", error)
            reply = error.reply if isinstance(error, _MessageRefused) else error_reply(error)
        except BaseException:
            await transaction.abort()
            raise
        self._observer.delivered(listener, str(check.verdict) if check else "none")
        _log_delivery(listener, check, decided, reply, time.perf_counter() - started)
        return DeliveryResult(reply, check)

    async def _check(
        self, raw: bytes, recipients: Sequence[SmtpPath]
    ) -> tuple[Check | None, Sequence[RecipientGroup[SmtpPath]]]:
        """The check, by the mildest decision, and what becomes of the message for whom.

        None and nobody where it failed and the message passes unmarked.
        """
        found: list[RecipientGroup[SmtpPath]] = []

        async def decide(check: Check) -> Check:
            found.extend(await self._recipient_groups(check, recipients))
            return _check_with_decision(check, found[0].decision)

        try:
            return await self._filter.check(Message(raw, self._runtime.message_limits), decide), found
        except Exception as error:
            known = isinstance(error, NbstreamError)
            self._observer.filter_failed("store" if known else "error")
            _log.error("check failed: %s", error, exc_info=not known)
            if self._runtime.passes_on_failure:
                return None, ()
            raise CheckFailed("check failed") from error

    async def _recipient_groups(
        self, check: Check, recipients: Sequence[SmtpPath]
    ) -> list[RecipientGroup[SmtpPath]]:
        """What becomes of the message for whom."""
        rules = self._runtime.rules
        pairs = [(each, rules.treatment_of(each.address)) for each in recipients]
        opinions = {rules.default.policy: _policy_verdict(check)}
        for treatment in {treatment.policy: treatment for _, treatment in pairs}.values():
            if treatment.policy not in opinions:
                opinions[treatment.policy] = _policy_verdict(
                    await self._filter.decide_for_treatment(check, treatment)
                )
        return group_recipients(pairs, opinions.__getitem__, can_differ=self._outlet.splits_recipients)

    def _delivery_part(self, check: Check, group: RecipientGroup[SmtpPath], sender: SmtpPath) -> DeliveryPart:
        own = _check_with_decision(check, group.decision)
        policy = group.decision.treatment.name if group.has_other_treatments else ""
        fields = verdict_fields.render_verdict_fields(
            own.id,
            own.verdict,
            own.probability,
            own.reason,
            model=self._runtime.model_name,
            thresholds=own.thresholds,
            policy=policy,
            clues=own.clues if self._runtime.shows_clues else (),
        )
        envelope = Envelope(sender, group.recipients)
        note = QuarantineNote(own.id, str(own.verdict), own.probability, policy, envelope)
        return DeliveryPart(group.decision.action, tuple(fields), envelope, note)

    async def _send_parts(self, raw: bytes, parts: Sequence[DeliveryPart], transaction: Transaction) -> SmtpReply:
        kinds = [part.action.kind for part in parts]
        for kind in kinds:
            self._observer.action_taken(str(kind))
        if not kinds[0].takes_message:
            raise _MessageRefused(_REFUSAL_REPLIES[kinds[0]])
        if all(kind is ActionKind.QUARANTINE for kind in kinds):
            return await self._outlet.send(raw, parts, transaction)
        started = time.perf_counter()
        try:
            reply = await self._outlet.send(raw, parts, transaction)
        except RelayUnavailable:
            self._observer.relayed("none", time.perf_counter() - started)
            raise
        self._observer.relayed(str(reply.code), time.perf_counter() - started)
        return reply


class _MessageRefused(Exception):
    """The message itself is refused, with this reply."""

    def __init__(self, reply: SmtpReply) -> None:
        super().__init__(str(reply))
        self.reply = reply


def _without_forged_fields(content: bytes) -> bytes:
    """The message without what others say in our name; raises ``_MessageRefused`` for one that loops."""
    head = split_at_line_ends(content[: header_fields.body_offset(content)])
    found = chain.from_iterable(_RECEIVED_FIELD.finditer(b"\n" + lines) for lines in head)
    if sum(1 for _ in islice(found, _MAX_RECEIVED + 1)) > _MAX_RECEIVED:
        raise _MessageRefused(_LOOP_REPLY)
    return with_guarded_first_line(without_verdict_fields(content))


def _policy_verdict(check: Check) -> PolicyVerdict:
    return PolicyVerdict(check.verdict, check.reason, check.thresholds)


def _check_with_decision(check: Check, decision: Decision) -> Check:
    """The check with what a policy makes of it; it is the same where that is what it was decided by."""
    opinion, name = decision.policy_verdict, decision.treatment.name
    if opinion == _policy_verdict(check) and name == check.policy:
        return check
    verdict, reason, thresholds = opinion.verdict, opinion.reason, opinion.thresholds
    return replace(check, verdict=verdict, reason=reason, thresholds=thresholds, policy=name)


def _log_delivery(
    listener: str, check: Check | None, decided: Sequence[Decision], reply: SmtpReply, seconds: float
) -> None:
    policies = list(dict.fromkeys(decision.treatment.name for decision in decided))
    log_message(
        listener,
        check,
        seconds,
        action=", ".join(dict.fromkeys(str(decision.action.kind) for decision in decided)) or None,
        policy=", ".join(policies) if policies not in ([], [DEFAULT_RULE_NAME]) else None,
        reply=str(reply),
    )
