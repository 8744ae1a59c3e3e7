"""The thresholds that ``tune`` compares on the same mail: present ones, another file's, budgets, fixed ones."""

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
from nbstream.policy.budget import budget_promises, is_biased_sample
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nbstream.evaluation.tuning import ErrorCounts, VerdictChanges, VerdictCounts
    from nbstream.policy.budget import BudgetPromise
    from nbstream.policy.first_scores import FirstScores
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
    """The stored first scores, and what each choice of thresholds would have made of them.

    ``cost_ratio`` is the cost of a lost ham, in missed spam. ``is_biased`` says that the ham of the sample is not
    like all ham (see ``policy.budget``). ``other`` is the policy of another file, if there is one.
    """

    sample: LabelledSample
    is_biased: bool
    cost_ratio: float
    present: ThresholdChoice
    other: ThresholdChoice | None
    budgets: Sequence[ThresholdChoice]
    fixed: Sequence[ThresholdChoice]

    def by_threshold(self) -> list[ThresholdChoice]:
        """Return the rows of a table: the policies, and each choice with another threshold, the lowest first."""
        policies = [self.present, *([self.other] if self.other else [])]
        budgets = [choice for choice in self.budgets if math.isfinite(choice.spam_threshold)]
        policy_thresholds = {choice.spam_threshold for choice in policies}
        fixed = [choice for choice in self.fixed if choice.spam_threshold not in policy_thresholds]
        return sorted([*policies, *budgets, *fixed], key=lambda choice: choice.spam_threshold)


@dataclass(frozen=True, slots=True)
class TuningBasis:
    """What all choices are computed from: the sample, and the promises of budgets by their rates.

    It is made once for first scores as they are. A choice then takes a time that depends on the number of messages
    by its logarithm only.
    """

    sample: LabelledSample
    is_biased: bool
    promises: Mapping[float, BudgetPromise]

    @classmethod
    def of(
        cls, first_scores: FirstScores, policies: Iterable[ThresholdPolicy], learned_at: float = -math.inf
    ) -> TuningBasis:
        """Return the basis for ``BUDGET_RATES`` and for the budgets of these policies.

        The sample has what was labelled after ``learned_at``, in seconds since the epoch.
        """
        rates = {*BUDGET_RATES, *(rate for policy in policies for rate in policy.budget_rates)}
        sample = LabelledSample.from_first_scores(first_scores, learned_at)
        ham = first_scores["ham"]
        return cls(sample, is_biased_sample(ham), budget_promises(ham, rates))

    def thresholds(self, policy: ThresholdPolicy) -> Thresholds:
        """Return the thresholds of a policy, whose budgets are among those of the basis."""
        return policy.resolve_thresholds({rate: self.promises[rate] for rate in policy.budget_rates})

    def choice(self, name: str, policy: ThresholdPolicy, present: ThresholdPolicy) -> ThresholdChoice:
        """Return what ``policy`` would have done, compared with the present one."""
        thresholds = self.thresholds(policy)
        return ThresholdChoice(
            name=name,
            setting=_setting(policy),
            thresholds=thresholds,
            error_counts=count_errors_at(self.sample, thresholds),
            unsure_counts=count_unsure(self.sample, thresholds),
            rejected_counts=count_rejected(self.sample, thresholds),
            verdict_changes=compare_verdicts(self.sample, self.thresholds(present), thresholds),
        )

    def compare(self, present: ThresholdPolicy, other: tuple[str, ThresholdPolicy] | None = None) -> TuningResult:
        """Compare all choices with the present policy; ``other`` is a further policy with its name."""
        return TuningResult(
            sample=self.sample,
            is_biased=self.is_biased,
            cost_ratio=cost_ratio(present),
            present=self.choice("present", present, present),
            other=self.choice(*other, present) if other else None,
            budgets=[
                self.choice(
                    f"budget {rate:g}", ThresholdPolicy(present.unsure, FalsePositiveBudget(rate)), present
                )
                for rate in BUDGET_RATES
            ],
            fixed=[
                self.choice(f"fixed {p:g}", ThresholdPolicy(min(present.unsure, p), p), present)
                for p in FIXED_THRESHOLDS
            ],
        )


def compare_thresholds(
    first_scores: FirstScores,
    present: ThresholdPolicy,
    other: tuple[str, ThresholdPolicy] | None = None,
    learned_at: float = -math.inf,
) -> TuningResult:
    """Compare all choices on what was labelled after ``learned_at``; ``other`` is a further policy with its name.

    ``learned_at`` is in seconds since the epoch.
    """
    policies = (present, other[1]) if other else (present,)
    return TuningBasis.of(first_scores, policies, learned_at).compare(present, other)


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
