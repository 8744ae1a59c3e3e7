"""The decision about a message that is on its way to mailboxes, the same for every listener that carries mail.

Rules: the message is tokenized once, each own model of its recipients checks it once, and
``policy.recipient_rules`` decides for its recipients. No mail is lost by a check that fails, since
``on_filter_failure`` decides about it. What came from outside as one of our fields is removed before anything
reads it. Nothing here knows a protocol, a reply or the next hop: a listener carries the decision out.
"""

from __future__ import annotations

import asyncio
import logging
import re
from dataclasses import replace
from itertools import chain, islice
from typing import TYPE_CHECKING, NamedTuple

from nbstream.errors import CheckFailed, MessageLoops, NbstreamError
from nbstream.mail import header_fields
from nbstream.mail.lines import line_spans
from nbstream.policy.envelope import envelope_builder
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME, PolicyVerdict, RecipientCase, group_recipients
from nbstream.policy.sender_lists import NO_LOOKUP
from nbstream.policy.verdict import Action, ActionKind
from nbstream.threads import in_thread_if_large

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from nbstream.delivery.next_hop import SmtpPath
    from nbstream.filter import Check, CheckSeconds, Filter
    from nbstream.mail.header_edits import HeaderEdits
    from nbstream.mail.message import Message
    from nbstream.policy.recipient_rules import RecipientDecision, RecipientGroup
    from nbstream.policy.sender_lists import Sender, SenderLookup
    from nbstream.server.metrics import DeliveryMetrics
    from nbstream.server.runtime import Runtime

_log = logging.getLogger(__name__)

# Of addresses whose rules are looked up: with 20 rules 3 ms for 500 short ones. A mail server may ask about a
# message with 50,000 recipients, and an address has up to 4,096 characters.
_CHARACTERS_PER_STEP = 20_000
_CHARACTERS_OF_LOOKUP = 20  # it costs as much as so many characters
_MAX_RECEIVED = 50  # RFC 5321 6.3 asks for at least 100 hops; here a loop passes twice in each round
_RECEIVED_FIELD = re.compile(rb"(?i)\nreceived[ \t]*:")  # 2 µs for 2 kB; 11 with "^"


class DecidedRecipients(NamedTuple):
    """What happens to a message for some of its recipients.

    ``check`` has the verdict of their policy; it is None where the check failed and the message passes unmarked.
    ``edits`` is what changes in the header. ``rule`` is the name of the rule that decided, and empty
    where the same one holds for all recipients.
    """

    action: Action
    recipients: tuple[SmtpPath, ...]
    edits: HeaderEdits
    check: Check | None = None
    rule: str = ""
    observed: Action | None = None

    @property
    def is_canary(self) -> bool:
        """Whether the message is one of ``nbstream doctor``, which is delivered whatever the actions are."""
        return self.check is not None and self.check.is_canary


class Decision(NamedTuple):
    """A message with what happens to it.

    ``content`` is the message without the fields of ``removed_names``, which all that comes in loses. ``groups``
    holds each recipient once, with the mildest decision first; there is at least one group.
    """

    content: bytes
    removed_names: tuple[str, ...]
    groups: tuple[DecidedRecipients, ...]

    @property
    def check(self) -> Check | None:
        """The check, with the verdict of the mildest decision; None where there was none."""
        return self.groups[0].check

    @property
    def log_details(self) -> dict[str, str | None]:
        """The fields of the line in the log: what is done, and by which rules."""
        checked = [group for group in self.groups if group.check]
        rules = list(dict.fromkeys(group.check.policy for group in checked if group.check))
        observed = _kinds(group.observed for group in checked)
        return {
            "action": _kinds(group.action for group in checked),
            **({"observed": observed} if observed else {}),
            "policy": ", ".join(rules) if rules not in ([], [DEFAULT_RULE_NAME]) else None,
        }


class Decider:
    """Checks messages and decides about them by one runtime.

    ``can_differ``: the recipients of one message can be treated differently. ``can_refuse_some``: the message can
    be refused for some of them and taken for others. ``refuses_loops``: a message that has come by very many
    servers is refused. Who passes mail on has to do that, whatever the mode; a mail server that only asks does it
    itself.
    """

    def __init__(
        self,
        runtime: Runtime,
        observer: DeliveryMetrics,
        *,
        can_differ: bool,
        can_refuse_some: bool = False,
        refuses_loops: bool = True,
    ) -> None:
        self._runtime = runtime
        self._filter = runtime.spam_filter
        self._observer = observer
        self._can_differ = can_differ
        self._can_refuse_some = can_refuse_some
        self._refuses_loops = refuses_loops

    async def decide(
        self,
        content: bytes,
        sender: Sender,
        recipients: Sequence[SmtpPath],
        listener: str,
        impossible: Collection[ActionKind] = (),
    ) -> Decision:
        """Check ``content`` (CRLF line ends) and return what happens to it for ``recipients``, at least one.

        The address of the ``sender`` and ``listener``, the name of the listener, are remembered with the check.
        ``impossible`` are the actions that cannot be carried out now: the message passes in place of them. Raises
        ``MessageLoops``, and ``CheckFailed`` where the check fails and the client has to try again.
        """
        stripped, message = await in_thread_if_large(len(content), self._read, content)
        del content  # of a message with fields of ours there is a copy now
        groups = tuple(await self._decided_recipients(message, sender, recipients, listener, impossible))
        if check := groups[0].check:
            self._runtime.note_if_sent(message, sender, [recipient.address for recipient in recipients], check)
        for group in groups:
            if group.is_canary:
                continue
            self._observer.action_decided(group.action, group.observed)
        for listed in {group.check.listed for group in groups if group.check and group.check.listed}:
            self._observer.list_decided(listed)
        return Decision(stripped, self._runtime.header_policy.removed_from_incoming, groups)

    def _read(self, content: bytes) -> tuple[bytes, Message]:
        """Return the content without fields of ours, and the message in it. Raises ``MessageLoops``."""
        if self._refuses_loops:
            _refuse_loop(content)
        stripped = self._runtime.message_reader.strip(content)
        return stripped, self._runtime.message_reader.read_stripped(stripped)

    async def _decided_recipients(
        self,
        message: Message,
        sender: Sender,
        recipients: Sequence[SmtpPath],
        listener: str,
        impossible: Collection[ActionKind],
    ) -> list[DecidedRecipients]:
        try:
            filters = await self._runtime.filters_for([recipient.address for recipient in recipients])
            checks, seconds = await score_by_models(message, filters)
            check = checks[filters[0].own_model]
            lookup = NO_LOOKUP if check.is_canary else self._runtime.sender_lists.look_up(message, sender)
            groups = await self._recipient_groups(checks, recipients, filters, lookup)
            decided = [self._decided_group(checks, group, impossible) for group in groups]
            addresses = [recipient.address for recipient in recipients]
            actions = _kinds(group.action for group in decided) or ""
            envelope = envelope_builder(listener, sender.address or "", addresses, message, actions)
            check = _check_of(groups[0].decision, checks)
            filters[0].report(check, seconds, envelope)
        except Exception as error:
            is_fault = not isinstance(error, NbstreamError)
            self._observer.filter_failed("error" if is_fault else "store")
            _log.error("check failed: %s", error, exc_info=is_fault)
            if not (self._runtime.passes_on_failure or self._runtime.header_policy.observes):
                raise CheckFailed("check failed") from error
            unmarked = self._runtime.header_policy.removal_edits
            return [DecidedRecipients(Action(ActionKind.PASS), tuple(recipients), unmarked)]
        return decided

    async def _recipient_groups(
        self,
        checks: Mapping[str, Check],
        recipients: Sequence[SmtpPath],
        filters: Sequence[Filter],
        lookup: SenderLookup,
    ) -> list[RecipientGroup[SmtpPath]]:
        """Return the recipients in groups that get the same decision, the mildest first.

        ``filters`` are those of the recipients, and ``checks`` are their checks, by own model.
        """
        rules = self._runtime.rules
        pairs, characters = [], 0
        for recipient, own in zip(recipients, filters, strict=True):
            rule, listed = rules.rule_of(recipient.address), lookup.decide_for(recipient.address)
            pairs.append((recipient, RecipientCase(rule, listed, own.own_model)))
            characters += _CHARACTERS_OF_LOOKUP + len(recipient.address)
            if characters >= _CHARACTERS_PER_STEP:
                await asyncio.sleep(0)
                characters = 0
        verdicts = {
            (rules.default.policy, model): _policy_verdict(check, model) for model, check in checks.items()
        }
        for _, (rule, _, model) in pairs:
            if (rule.policy, model) not in verdicts:
                check = await self._filter.decide_by_rule(checks[model], rule)
                verdicts[rule.policy, model] = _policy_verdict(check, model)
        return group_recipients(
            pairs,
            lambda policy, model: verdicts[policy, model],
            can_differ=self._can_differ,
            can_refuse_some=self._can_refuse_some,
        )

    def _decided_group(
        self, checks: Mapping[str, Check], group: RecipientGroup[SmtpPath], impossible: Collection[ActionKind]
    ) -> DecidedRecipients:
        group_check = _check_of(group.decision, checks)
        if group.has_other_models:
            group_check = group_check.without_clues()
        if group.has_other_lists:
            group_check = group_check.for_others()
        rule = group.decision.rule.name if group.has_other_rules else ""
        header_policy, decided = self._runtime.header_policy, group.decision.action
        passes = header_policy.observes or decided.kind in impossible  # a message passes in a trial, too
        action, observed = Action(ActionKind.PASS) if passes else decided, None
        if group_check.is_canary:
            action = Action(ActionKind.PASS)
        elif header_policy.observes:
            observed = decided
        elif action != decided:
            _log.warning("the action %s is not possible here: a message was passed", decided.kind)
        is_redirected = action.kind is ActionKind.REDIRECT and len(group.recipients) == 1
        redirected_from = group.recipients[0].address if is_redirected else ""
        edits = header_policy.edits(group_check, rule, redirected_from)
        if action.kind is ActionKind.QUARANTINE:  # it may be released as ham
            edits = edits._replace(removed_names=header_policy.removed_from_incoming, subject_tag="")
        return DecidedRecipients(action, group.recipients, edits, group_check, rule, observed)


async def score_by_models(message: Message, filters: Sequence[Filter]) -> tuple[Mapping[str, Check], CheckSeconds]:
    """Return the check of the message by each own model of the ``filters`` of its recipients.

    It is tokenized once, by the first filter, whose seconds these are. Raises ``StoreUnavailable``.
    """
    check, seconds = await filters[0].score(message)
    checks = {filters[0].own_model: check}
    for other in {other.own_model: other for other in filters}.values():
        if other.own_model not in checks:
            own_check = check if check.is_canary else await other.score_tokens(check.id, check.tokens)
            checks[other.own_model] = own_check
    return checks, seconds


def _refuse_loop(content: bytes) -> None:
    """Raise ``MessageLoops`` if the message has come by very many servers."""
    pieces = line_spans(content, header_fields.body_offset(content))
    received = chain.from_iterable(_RECEIVED_FIELD.finditer(b"\n" + content[slice(*piece)]) for piece in pieces)
    if sum(1 for _ in islice(received, _MAX_RECEIVED + 1)) > _MAX_RECEIVED:
        raise MessageLoops(f"the message has more than {_MAX_RECEIVED} Received fields")


def _kinds(actions: Iterable[Action | None]) -> str | None:
    return ", ".join(dict.fromkeys(str(action.kind) for action in actions if action)) or None


def _policy_verdict(check: Check, own_model: str) -> PolicyVerdict:
    return PolicyVerdict(check.verdict, check.reason, check.thresholds, check.listed, own_model)


def _check_of(decision: RecipientDecision, checks: Mapping[str, Check]) -> Check:
    """Return the check by the own model that decided, with the decision, or as it is where that is in it."""
    other, name = decision.policy_verdict, decision.rule.name
    check = checks[other.own_model]
    if other == _policy_verdict(check, other.own_model) and name == check.policy:
        return check
    return replace(
        check,
        verdict=other.verdict,
        reason=other.reason,
        thresholds=other.thresholds,
        policy=name,
        listed=other.listed,
    )
