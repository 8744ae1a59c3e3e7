"""Which policy and which actions hold for a recipient, and what becomes of a message to several of them.

Rules: the first rule whose pattern matches holds, else the top of the file. Recipients with one decision are one
group. Where the way cannot treat recipients apart, the mildest decision holds for all. Where it can, each keeps
its own, but a message has one answer: defer and reject hold only if they hold for all, and else those recipients
get the mildest of what the others get. Of equally mild decisions that of the rule further up in the file is taken.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

from nbstream.policy.actions import Action, VerdictActions
from nbstream.policy.address_patterns import first_matching_pattern
from nbstream.policy.policy import ThresholdPolicy
from nbstream.policy.verdict import Thresholds, Verdict

if TYPE_CHECKING:
    from nbstream.policy.address_patterns import AddressPattern

DEFAULT_RULE_NAME = "default"
"""The name of the top of the file where a rule might have held: no pattern, since it can match no address."""

_MAX_NAME_CHARACTERS = 60
_UNSAFE = re.compile(r"[^a-z0-9.@*?+_-]")
_SEVERITY = {verdict: place for place, verdict in enumerate(Verdict)}

Recipient = TypeVar("Recipient")


@dataclass(frozen=True, slots=True)
class RecipientTreatment:
    """A policy and its actions; ``name`` is fit for headers and logs, ``place`` is the rule's, the top's the last.

    The name of a rule is its pattern, but where the pattern names one mailbox: the header of a message would then
    tell its readers of a recipient that is hidden from them. Such a rule is called by its place.
    """

    name: str
    position: int
    policy: ThresholdPolicy
    actions: VerdictActions


@dataclass(frozen=True, slots=True)
class RecipientRule:
    """The treatment of the recipients that a pattern matches."""

    pattern: AddressPattern
    treatment: RecipientTreatment

    @classmethod
    def at_position(
        cls, place: int, pattern: AddressPattern, policy: ThresholdPolicy, actions: VerdictActions
    ) -> RecipientRule:
        """The rule at this place of the file, from 0 on."""
        local = pattern.text.rpartition("@")[0] or pattern.text
        name = _safe_name(pattern.text) if "*" in local else f"recipients[{place}]"
        return cls(pattern, RecipientTreatment(name, place, policy, actions))


@dataclass(frozen=True, slots=True)
class RecipientRules:
    """All rules in the order of the file, and the top."""

    default: RecipientTreatment
    rules: tuple[RecipientRule, ...]
    patterns: tuple[AddressPattern, ...]

    @classmethod
    def build(
        cls, policy: ThresholdPolicy, actions: VerdictActions, rules: Sequence[RecipientRule] = ()
    ) -> RecipientRules:
        """The rules under a top with this policy and these actions."""
        patterns = tuple(each.pattern for each in rules)
        return cls(RecipientTreatment(DEFAULT_RULE_NAME, len(rules), policy, actions), tuple(rules), patterns)

    def treatment_of(self, address: str) -> RecipientTreatment:
        """What holds for this recipient."""
        place = first_matching_pattern(self.patterns, address)
        return self.default if place is None else self.rules[place].treatment


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """What one policy makes of a message."""

    verdict: Verdict
    reason: str
    thresholds: Thresholds


@dataclass(frozen=True, slots=True)
class Decision:
    """An opinion, the action that follows from it, and the treatment that it is from."""

    policy_verdict: PolicyVerdict
    action: Action
    treatment: RecipientTreatment

    @property
    def mildness(self) -> tuple[int, int, int, str]:
        """Less is milder; equal only for equal decisions."""
        return (
            self.action.kind.severity_rank,
            _SEVERITY[self.policy_verdict.verdict],
            self.treatment.position,
            self.action.address,
        )


@dataclass(frozen=True, slots=True)
class RecipientGroup(Generic[Recipient]):
    """Recipients that get the same, by one decision.

    ``has_other_treatments``: others of the message have another treatment.
    """

    decision: Decision
    recipients: tuple[Recipient, ...]
    has_other_treatments: bool = False


def group_recipients(
    recipients: Iterable[tuple[Recipient, RecipientTreatment]],
    opinion_of: Callable[[ThresholdPolicy], PolicyVerdict],
    *,
    apart: bool,
) -> list[RecipientGroup[Recipient]]:
    """What becomes of a message for each of its recipients (one at least), the mildest first.

    ``apart``: the way can treat recipients differently. Else, and where the answer refuses, it is one group.
    """
    pairs = list(recipients)
    treatments = {treatment.position: treatment for _, treatment in pairs}
    decisions = {place: _decide(each, opinion_of) for place, each in treatments.items()}
    if len(decisions) == 1:  # as of most messages
        (only,) = decisions.values()
        return [RecipientGroup(only, tuple(recipient for recipient, _ in pairs))]
    mildest = min(decisions.values(), key=lambda each: each.mildness)
    alike: dict[tuple[PolicyVerdict, Action], list[tuple[Recipient, Decision]]] = {}
    for recipient, treatment in pairs:
        own = decisions[treatment.position]
        decision = own if apart and own.action.kind.takes_message else mildest
        alike.setdefault((decision.policy_verdict, decision.action), []).append((recipient, decision))
    found = []
    for members in alike.values():
        deciding = min((decision for _, decision in members), key=lambda each: each.mildness)
        found.append(RecipientGroup(deciding, tuple(recipient for recipient, _ in members), len(treatments) > 1))
    return sorted(found, key=lambda each: each.decision.mildness)


def _decide(treatment: RecipientTreatment, opinion_of: Callable[[ThresholdPolicy], PolicyVerdict]) -> Decision:
    opinion = opinion_of(treatment.policy)
    return Decision(opinion, treatment.actions.for_verdict(opinion.verdict), treatment)


def _safe_name(pattern: str) -> str:
    """A pattern without what could end a header's quoted text, and not too long for its line."""
    text = _UNSAFE.sub("_", pattern.lower())
    return text if len(text) <= _MAX_NAME_CHARACTERS else f"{text[: _MAX_NAME_CHARACTERS - 3]}..."
