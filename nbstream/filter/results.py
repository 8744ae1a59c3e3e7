"""What the filter answers, and what it is told once and for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.policy.explanation import Explanation, ScoreCounts
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.verdict import Thresholds

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.policy.policy import ThresholdPolicy
    from nbstream.policy.verdict import ModelState, Verdict


class LessonOutcome(StrEnum):
    """What feedback did."""

    LEARNED = "learned"
    RELEARNED = "relearned"
    ALREADY = "already"
    UNLEARNED = "unlearned"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: ``score`` is in nats before calibration, ``probability`` is P(spam).

    ``thresholds`` are those that decided, ``policy`` the name of the treatment that they are of. ``prior`` and the
    clues sum to the score, and ``evidence`` is what they were counted from.
    """

    id: str
    verdict: Verdict
    probability: float
    score: float
    reason: str
    state: ModelState
    clues: Sequence[Clue]
    thresholds: Thresholds = field(default_factory=Thresholds)
    prior: float = 0.0
    evidence: ScoreCounts = field(default=ScoreCounts(), repr=False, compare=False)  # an array has no truth value
    policy: str = DEFAULT_RULE_NAME

    def explain(self, at: float) -> Explanation:
        """The check with all that it was made of; ``at`` is when, in seconds since the epoch."""
        return Explanation(
            at,
            str(self.verdict),
            self.reason,
            self.probability,
            self.score,
            self.prior,
            self.thresholds,
            self.state,
            self.evidence.count_clues(self.clues),
        )


@dataclass(frozen=True, slots=True)
class CheckSeconds:
    """How long each stage of one check took, in seconds.

    ``wait`` is the time until the check began: in the check queue, and for a thread where the message is large.
    """

    wait: float
    parse: float
    tokenize: float
    score: float = 0.0

    def by_stage(self) -> dict[str, float]:
        """The seconds by the name of the stage, as metrics show them."""
        return {"wait": self.wait, "parse": self.parse, "tokenize": self.tokenize, "score": self.score}


@dataclass(frozen=True, slots=True)
class Lesson:
    """The result of one piece of feedback.

    ``before`` is the check as the model was. ``after`` has the score that the lesson made of it (what others teach
    at the same moment may not be in it), decided by the messages and thresholds that are known after it.
    """

    outcome: LessonOutcome
    label: str | None
    before: Check
    after: Check

    def with_withdrawn_label(self, label: str) -> Lesson:
        """The same, where the message was learned as that without people, and this was taken back too."""
        unknown = self.outcome is LessonOutcome.UNKNOWN
        return replace(self, outcome=LessonOutcome.UNLEARNED, label=label) if unknown else self


@dataclass(frozen=True, slots=True)
class FilterPolicy:
    """The policy, and how many labelled messages of each class a model needs before it decides."""

    default_policy: ThresholdPolicy
    min_learned: Mapping[str, int]
    other_policies: tuple[ThresholdPolicy, ...] = ()
    """Policies that decide some messages instead (see ``Filter.decide_for_treatment``).

    Their budgets are followed too.
    """

    @property
    def budget_rates(self) -> frozenset[float]:
        """The false-positive rates of all policies."""
        return frozenset(
            rate for policy in (self.default_policy, *self.other_policies) for rate in policy.budget_rates
        )
