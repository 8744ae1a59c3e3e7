"""The thresholds that are compared on the same mail: those of policies, of budgets, and fixed ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.evaluation.tuning import (
    LabelledSample,
    compare_verdicts,
    count_errors_at,
    count_rejected,
    count_unsure,
)
from nbstream.policy.thresholds import (
    FalsePositiveBudget,
    ThresholdPolicy,
    budget_guarantees,
    only_errors_are_labelled,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.tuning import ErrorCounts, VerdictChanges, VerdictCounts
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.policy.verdict import Thresholds

BUDGET_RATES = (0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
"""False-positive budgets: shares of the ham that may be called spam."""

FIXED_THRESHOLDS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""P(spam); each is the best one if a lost ham costs as much as 1, 9, 19, 99, 999 or 9999 missed spam."""

_DEFAULT_COST_RATIO = 19.0


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """One set of thresholds, what it would have done, and what it changes compared with the present one.

    ``setting`` is the line of the configuration's ``verdict`` section that sets it.
    """

    name: str
    setting: str
    thresholds: Thresholds
    error_counts: ErrorCounts
    unsure_counts: VerdictCounts
    rejected_counts: VerdictCounts
    verdict_changes: VerdictChanges

    @property
    def spam_threshold(self) -> float:
        """The P(spam) from which a message is called spam or rejected; infinite if it never is."""
        return self.thresholds.spam


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The stored prequential scores, and what each choice of thresholds would have made of them.

    ``cost_ratio`` is the cost of a lost ham, in missed spam. ``is_biased`` says that the ham of the sample is not
    like all ham (see ``policy.thresholds``). ``others`` are policies that somebody named, beside the present one.
    """

    sample: LabelledSample
    is_biased: bool
    cost_ratio: float
    present: ThresholdChoice
    others: Sequence[ThresholdChoice]
    budgets: Sequence[ThresholdChoice]
    fixed: Sequence[ThresholdChoice]

    @property
    def policies(self) -> Sequence[ThresholdChoice]:
        """The present policy, and the others."""
        return [self.present, *self.others]

    def by_threshold(self) -> list[ThresholdChoice]:
        """Return the rows of a table: the policies, and each choice with another threshold, the lowest first."""
        budgets = [choice for choice in self.budgets if math.isfinite(choice.spam_threshold)]
        policy_thresholds = {choice.spam_threshold for choice in self.policies}
        fixed = [choice for choice in self.fixed if choice.spam_threshold not in policy_thresholds]
        return sorted([*self.policies, *budgets, *fixed], key=lambda choice: choice.spam_threshold)


def policies_of_rules(rules: RecipientRules) -> list[tuple[str, ThresholdPolicy]]:
    """Return the policies of rules that differ from that at the top of the file, with their names."""
    policies = [(f"for {rule.pattern.text}", rule.treatment.policy) for rule in rules.rules]
    return [(name, policy) for name, policy in policies if policy != rules.default.policy]


def compare_thresholds(
    prequential_scores: PrequentialScores,
    present: ThresholdPolicy,
    others: Sequence[tuple[str, ThresholdPolicy]] = (),
    learned_at: float = -math.inf,
) -> TuningResult:
    """Compare all choices on what was labelled after ``learned_at``, in seconds since the epoch.

    ``others`` are further policies with their names.
    """
    ham, sample = prequential_scores["ham"], LabelledSample.from_prequential_scores(prequential_scores, learned_at)
    rates = {*BUDGET_RATES, *(rate for _, policy in (("", present), *others) for rate in policy.budget_rates)}
    guarantees = budget_guarantees(ham, rates)

    def thresholds_of(policy: ThresholdPolicy) -> Thresholds:
        return policy.resolve_thresholds({rate: guarantees[rate] for rate in policy.budget_rates})

    def choose(name: str, policy: ThresholdPolicy) -> ThresholdChoice:
        thresholds = thresholds_of(policy)
        return ThresholdChoice(
            name=name,
            setting=_setting(policy),
            thresholds=thresholds,
            error_counts=count_errors_at(sample, thresholds),
            unsure_counts=count_unsure(sample, thresholds),
            rejected_counts=count_rejected(sample, thresholds),
            verdict_changes=compare_verdicts(sample, thresholds_of(present), thresholds),
        )

    return TuningResult(
        sample=sample,
        is_biased=only_errors_are_labelled(ham),
        cost_ratio=cost_ratio(present),
        present=choose("present", present),
        others=[choose(*other) for other in others],
        budgets=[
            choose(f"budget {rate:g}", ThresholdPolicy(present.unsure, FalsePositiveBudget(rate)))
            for rate in BUDGET_RATES
        ],
        fixed=[choose(f"fixed {p:g}", ThresholdPolicy(min(present.unsure, p), p)) for p in FIXED_THRESHOLDS],
    )


def cost_ratio(policy: ThresholdPolicy) -> float:
    """Return the cost of a lost ham, in missed spam, for which a fixed threshold P is right, P / (1 - P).

    For a budget it is 19.
    """
    if isinstance(policy.spam, FalsePositiveBudget) or policy.spam >= 1:
        return _DEFAULT_COST_RATIO
    return round(policy.spam / (1 - policy.spam), 6)


def _setting(policy: ThresholdPolicy) -> str:
    if isinstance(policy.spam, FalsePositiveBudget):
        return f"max_false_positive_rate: {policy.spam.rate:g}"
    return f"spam: {policy.spam:g}"
