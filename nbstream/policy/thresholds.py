"""A policy: it makes thresholds from the configuration and from the prequential scores of ham.

Rules: pure. A threshold has one of three forms. Two of them are numbers: a P(spam), or a cost ratio c of a lost
ham to a passed spam, which gives the P(spam) c / (1 + c) (see ``verdict``). The third is a false-positive budget,
whose threshold changes with what is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.budget import budget_guarantees
from nbstream.policy.verdict import SPAM_THRESHOLD, Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.policy.budget import BudgetGuarantee
    from nbstream.policy.prequential_scores import PrequentialScores


@dataclass(frozen=True, slots=True)
class FalsePositiveBudget:
    """A threshold that comes from a budget: the lowest that keeps the share of ham above it within ``rate``.

    ``rate`` is above 0 and at most 1/2. ``fixed`` is the threshold while the rate is not guaranteed; an infinite
    one is never reached.
    """

    rate: float
    fixed: float = math.inf


Threshold: TypeAlias = float | FalsePositiveBudget
"""A P(spam), or a budget that gives one."""


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """The thresholds as the configuration has them. A ``reject`` of None refuses nothing."""

    unsure: float = 0.5
    spam: Threshold = SPAM_THRESHOLD
    reject: Threshold | None = None

    @property
    def budget_rates(self) -> tuple[float, ...]:
        """The rates of the budgets among the thresholds."""
        return tuple(
            threshold.rate for threshold in (self.spam, self.reject) if isinstance(threshold, FalsePositiveBudget)
        )

    def budget_guarantees(self, prequential_scores: PrequentialScores) -> dict[float, BudgetGuarantee]:
        """Return the guarantee of each budget by its rate."""
        return budget_guarantees(prequential_scores["ham"], self.budget_rates)

    def thresholds(self, prequential_scores: PrequentialScores) -> Thresholds:
        """Return the thresholds that hold with these prequential scores."""
        return self.resolve_thresholds(self.budget_guarantees(prequential_scores))

    def resolve_thresholds(self, guarantees: Mapping[float, BudgetGuarantee]) -> Thresholds:
        """Return the thresholds that hold with these guarantees, by the rates of the budgets.

        A threshold for spam below ``unsure`` leaves no message unsure. The threshold for ``reject`` is never below
        that for spam.
        """
        spam = _resolve_threshold(self.spam, guarantees)
        reject = None if self.reject is None else max(spam, _resolve_threshold(self.reject, guarantees))
        is_guaranteed = (
            isinstance(self.spam, FalsePositiveBudget) and guarantees[self.spam.rate].threshold is not None
        )
        text = "; ".join(map(str, guarantees.values()))
        return Thresholds(min(self.unsure, spam), spam, reject, text, is_guaranteed)


def _resolve_threshold(threshold: Threshold, guarantees: Mapping[float, BudgetGuarantee]) -> float:
    if not isinstance(threshold, FalsePositiveBudget):
        return threshold
    by_budget = guarantees[threshold.rate].threshold
    return threshold.fixed if by_budget is None else by_budget
