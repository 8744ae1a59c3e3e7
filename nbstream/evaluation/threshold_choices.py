"""The thresholds that ``tune`` compares on the same mail: those in force, another file's, budgets, fixed ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.evaluation.tuning import LabelledSample, compare_verdicts, count_errors_at, count_unsure
from nbstream.policy.budget import is_biased_sample
from nbstream.policy.policy import FalsePositiveBudget, ThresholdPolicy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.tuning import ErrorCounts, UnsureCounts, VerdictChanges
    from nbstream.policy.first_scores import FirstScores
    from nbstream.policy.verdict import Thresholds

BUDGET_RATES = (0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
"""Shares of the ham that may be called spam."""

FIXED_THRESHOLDS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""P(spam): what is right where a ham lost costs 1, 9, 19, 99, 999, 9999 spam passed."""

_DEFAULT_COST_RATIO = 19.0


@dataclass(frozen=True, slots=True)
class ThresholdChoice:
    """One set of thresholds, what it would have done, and what it changes against the present one.

    ``setting`` is how it stands in a file's ``verdict`` section.
    """

    name: str
    setting: str
    thresholds: Thresholds
    error_counts: ErrorCounts
    unsure_counts: UnsureCounts
    verdict_changes: VerdictChanges

    @property
    def spam_threshold(self) -> float:
        """P(spam) from which a message is called spam, refused or not; infinite: never."""
        return self.thresholds.spam


@dataclass(frozen=True, slots=True)
class TuningResult:
    """The stored scores, and what each choice would have made of them.

    ``cost_ratio`` is how many spam passed a ham lost costs.
    """

    sample: LabelledSample
    is_biased: bool
    cost_ratio: float
    present: ThresholdChoice
    other: ThresholdChoice | None
    budgets: Sequence[ThresholdChoice]
    fixed: Sequence[ThresholdChoice]

    def by_threshold(self) -> list[ThresholdChoice]:
        """What a table shows: the two policies, and each choice with a threshold of its own; the lowest first."""
        own = [self.present, *([self.other] if self.other else [])]
        reached = [choice for choice in self.budgets if math.isfinite(choice.spam_threshold)]
        known = {choice.spam_threshold for choice in own}
        fixed = [choice for choice in self.fixed if choice.spam_threshold not in known]
        return sorted([*own, *reached, *fixed], key=lambda choice: choice.spam_threshold)


def compare_thresholds(
    first_scores: FirstScores, present: ThresholdPolicy, other: tuple[str, ThresholdPolicy] | None = None
) -> TuningResult:
    """Everything that is told of ``first_scores``; ``other`` is compared under its name."""
    sample = LabelledSample.from_first_scores(first_scores)
    now = present.thresholds(first_scores)

    def choice(name: str, policy: ThresholdPolicy) -> ThresholdChoice:
        would = policy.thresholds(first_scores)
        return ThresholdChoice(
            name, _setting(policy), would,
            count_errors_at(sample, would), count_unsure(sample, would), compare_verdicts(sample, now, would),
        )  # fmt: skip

    return TuningResult(
        sample,
        is_biased_sample(first_scores["ham"]),
        cost_ratio(present),
        choice("present", present),
        choice(*other) if other else None,
        [
            choice(f"budget {rate:g}", ThresholdPolicy(present.unsure, FalsePositiveBudget(rate)))
            for rate in BUDGET_RATES
        ],
        [choice(f"fixed {p:g}", ThresholdPolicy(min(present.unsure, p), p)) for p in FIXED_THRESHOLDS],
    )


def cost_ratio(policy: ThresholdPolicy) -> float:
    """How many spam passed a lost ham costs, if a fixed threshold was chosen for that: P / (1 - P); else 19."""
    if isinstance(policy.spam, FalsePositiveBudget) or policy.spam >= 1:
        return _DEFAULT_COST_RATIO
    return round(policy.spam / (1 - policy.spam), 6)


def _setting(policy: ThresholdPolicy) -> str:
    if isinstance(policy.spam, FalsePositiveBudget):
        return f"max_false_positive_rate: {policy.spam.rate:g}"
    return f"spam: {policy.spam:g}"
