"""Which policy and which actions hold for a recipient, and what happens to a message for several recipients.

Rules:

- The first rule whose pattern matches the recipient holds; without one, the top of the file holds.
- Recipients with the same decision are one group. What a sender list decides is another decision, and so is what
  another own model says.
- Where recipients cannot be treated differently, the mildest decision holds for all of them.
- Where it can, each recipient has its own decision. But where a message has one reply, as in SMTP, defer and
  reject hold only if they hold for all recipients. Else the recipients with these actions get the mildest of the
  decisions.
- Of two decisions that are equally mild, that of the rule further up in the file is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from nbstream.policy.address_patterns import AddressPattern, first_matching_pattern
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.policy.verdict import Action, ActionKind, Thresholds, Verdict

if TYPE_CHECKING:
    from nbstream.policy.sender_lists import ListDecision

DEFAULT_RULE_NAME = "default"
"""The name of the top of the file as a rule. No other rule has this name: as a pattern it matches no address."""

_MAX_NAME_CHARACTERS = 60
_UNSAFE = re.compile(r"[^a-z0-9.@*?+_-]")
_SEVERITY = {verdict: rank for rank, verdict in enumerate(Verdict)}

Recipient = TypeVar("Recipient")


@dataclass(frozen=True, slots=True)
class RecipientRule:
    """The policy and the actions for the recipients that ``pattern`` matches.

    ``name`` is fit for header fields and logs. It is the pattern of the rule, but not where the pattern names one
    mailbox: then the header of a message would show its readers a recipient that is hidden from them. Such a rule
    is named by its position. ``position`` is that of the rule in the file; the top of the file has the last one.
    """

    name: str = field(hash=False)  # each rule of a file has its position
    position: int
    policy: ThresholdPolicy = field(hash=False)
    actions: ActionsSettings = field(hash=False)
    pattern: AddressPattern = field(default=AddressPattern("*"), hash=False)

    @classmethod
    def at_position(
        cls, position: int, pattern: AddressPattern, policy: ThresholdPolicy, actions: ActionsSettings
    ) -> RecipientRule:
        """Return the rule at this position of the file, from 0 on."""
        local = pattern.text.rpartition("@")[0] or pattern.text
        name = _safe_name(pattern.text) if "*" in local else f"recipients[{position}]"
        return cls(name, position, policy, actions, pattern)


class RecipientRules(NamedTuple):
    """All rules in the order of the file, and the default: the top of the file."""

    default: RecipientRule
    rules: tuple[RecipientRule, ...]
    patterns: tuple[AddressPattern, ...]

    @classmethod
    def build(
        cls, policy: ThresholdPolicy, actions: ActionsSettings, rules: Sequence[RecipientRule] = ()
    ) -> RecipientRules:
        """Return the rules above a default of this policy and these actions."""
        patterns = tuple(rule.pattern for rule in rules)
        return cls(RecipientRule(DEFAULT_RULE_NAME, len(rules), policy, actions), tuple(rules), patterns)

    def may_take(self, kind: ActionKind) -> bool:
        """Return whether an action of this kind is taken for any verdict of any recipient."""
        rules = (self.default, *self.rules)
        return any(rule.actions.for_verdict(verdict).kind is kind for rule in rules for verdict in Verdict)

    @property
    def patterns_by_name(self) -> Mapping[str, str]:
        """The patterns of the rules by their names."""
        return {rule.name: rule.pattern.text for rule in self.rules}

    def rule_of(self, address: str) -> RecipientRule:
        """Return the rule that holds for this recipient."""
        position = first_matching_pattern(self.patterns, address)
        return self.default if position is None else self.rules[position]


class PolicyVerdict(NamedTuple):
    """The verdict of one policy on a message, with its reason and the thresholds that decided.

    ``listed`` is what a sender list says of the message. ``own_model`` names the own model that scored it, and is
    empty for the common one.
    """

    verdict: Verdict
    reason: str
    thresholds: Thresholds
    listed: ListDecision | None = None
    own_model: str = ""

    def by_list(self, listed: ListDecision | None) -> PolicyVerdict:
        """Return the verdict as a sender list decides it."""
        if listed is None:
            return self
        return PolicyVerdict(*listed.apply(self.verdict, self.reason), self.thresholds, listed, self.own_model)


class RecipientCase(NamedTuple):
    """What decides about a message for a recipient: its rule, the sender lists, and its own model."""

    rule: RecipientRule
    listed: ListDecision | None = None
    own_model: str = ""


class RecipientDecision(NamedTuple):
    """The verdict of a policy, the action that follows from it, and the rule that both belong to."""

    policy_verdict: PolicyVerdict
    action: Action
    rule: RecipientRule

    @property
    def mildness(self) -> tuple[int, int, int, str, str, str]:
        """The smaller, the milder. It is equal only for equal decisions."""
        return (
            self.action.kind.severity_rank,
            _SEVERITY[self.policy_verdict.verdict],
            self.rule.position,
            self.action.address,
            str(self.policy_verdict.listed or ""),
            self.policy_verdict.own_model,
        )


@dataclass(frozen=True, slots=True)
class RecipientGroup(Generic[Recipient]):
    """Recipients for which one decision holds.

    ``has_other_rules`` says that another rule holds for some recipients of the message, and
    ``has_other_models`` that some of this group have another own model than the one that decided.
    ``has_other_lists`` says that the sender lists say something else for some of this group.
    """

    decision: RecipientDecision
    recipients: tuple[Recipient, ...]
    has_other_rules: bool = False
    has_other_models: bool = False
    has_other_lists: bool = False


def group_recipients(
    recipients: Iterable[tuple[Recipient, RecipientCase]],
    policy_verdict_of: Callable[[ThresholdPolicy, str], PolicyVerdict],
    *,
    can_differ: bool,
    can_refuse_some: bool = False,
) -> list[RecipientGroup[Recipient]]:
    """Group the recipients of a message (at least one) by what happens to it, the mildest decision first.

    ``can_differ`` says whether recipients can be treated differently, and ``can_refuse_some`` whether the
    client gets a reply for each recipient. Where recipients cannot differ, there is one group.
    ``policy_verdict_of`` returns the verdict of a policy by the own model of that name.
    """
    pairs = list(recipients)
    decisions = {case: _decide(case, policy_verdict_of) for case in {case for _, case in pairs}}
    if len(decisions) == 1:  # as for most messages
        (decision,) = decisions.values()
        return [RecipientGroup(decision, tuple(recipient for recipient, _ in pairs))]
    has_other_rules = len({case.rule.position for case in decisions}) > 1
    mildest = min(decisions.values(), key=lambda decision: decision.mildness)
    members_by_decision: dict[
        tuple[PolicyVerdict, Action], list[tuple[Recipient, RecipientCase, RecipientDecision]]
    ] = {}
    for recipient, case in pairs:
        own_decision = decisions[case]
        holds = can_differ and (can_refuse_some or own_decision.action.kind.takes_message)
        decision = own_decision if holds else mildest
        key = decision.policy_verdict, decision.action
        members_by_decision.setdefault(key, []).append((recipient, case, decision))
    groups = []
    for members in members_by_decision.values():
        decision = min((decision for *_, decision in members), key=lambda decision: decision.mildness)
        model, listed = decision.policy_verdict.own_model, decision.policy_verdict.listed
        has_other_models = any(case.own_model != model for _, case, _ in members)
        has_other_lists = any(case.listed != listed for _, case, _ in members)
        of_group = tuple(recipient for recipient, *_ in members)
        groups.append(RecipientGroup(decision, of_group, has_other_rules, has_other_models, has_other_lists))
    return sorted(groups, key=lambda group: group.decision.mildness)


def _decide(
    case: RecipientCase, policy_verdict_of: Callable[[ThresholdPolicy, str], PolicyVerdict]
) -> RecipientDecision:
    policy_verdict = policy_verdict_of(case.rule.policy, case.own_model).by_list(case.listed)
    return RecipientDecision(policy_verdict, case.rule.actions.for_verdict(policy_verdict.verdict), case.rule)


def _safe_name(pattern: str) -> str:
    """Return the pattern without characters that could end quoted text in a header field, and not too long."""
    text = _UNSAFE.sub("_", pattern.lower())
    return text if len(text) <= _MAX_NAME_CHARACTERS else f"{text[: _MAX_NAME_CHARACTERS - 3]}..."
