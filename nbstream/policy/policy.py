"""A policy: how the thresholds are found from what the configuration says and from the ham seen so far.

Rules: pure. Of the three forms of a threshold two are numbers: a P(spam), or a cost ratio c of a lost ham to a
passed spam, which is c / (1 + c) (see ``verdict``). The third is a budget, whose threshold moves with what is
learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.budget import budget_promise
from nbstream.policy.verdict import Thresholds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.policy.budget import BudgetPromise
    from nbstream.policy.first_scores import FirstScores


@dataclass(frozen=True, slots=True)
class FalsePositiveBudget:
    """The lowest threshold that keeps the share of ham above it within ``rate``, above 0 and at most 1/2.

    Until that can be promised ``until_promised`` is the threshold; None is none.
    """

    rate: float
    until_promised: float | None = None


Threshold: TypeAlias = float | FalsePositiveBudget
"""P(spam), or what finds it."""


def threshold_of_cost_ratio(ratio: float) -> float:
    """The P(spam) from which a spam is more likely than ``ratio`` times its opposite."""
    return ratio / (1 + ratio)


@dataclass(frozen=True, slots=True)
class ThresholdPolicy:
    """The thresholds as the configuration has them; ``reject`` None refuses nothing."""

    unsure: float = 0.5
    spam: Threshold = 0.95
    reject: Threshold | None = None

    @property
    def budget_rates(self) -> tuple[float, ...]:
        """The rates that are to be kept."""
        return tuple(each.rate for each in (self.spam, self.reject) if isinstance(each, FalsePositiveBudget))

    def budget_promises(self, first_scores: FirstScores) -> dict[float, BudgetPromise]:
        """What can be promised of each budget, by its rate."""
        return {rate: budget_promise(first_scores["ham"], rate) for rate in self.budget_rates}

    def thresholds(self, first_scores: FirstScores) -> Thresholds:
        """The thresholds that hold now."""
        return self.resolve_thresholds(self.budget_promises(first_scores))

    def resolve_thresholds(self, promised: Mapping[float, BudgetPromise]) -> Thresholds:
        """The thresholds by what is promised of each budget.

        A budget below ``unsure`` leaves no message unsure, one for ``reject`` is never below ``spam``.
        """
        spam = _resolve_threshold(self.spam, promised)
        reject = None if self.reject is None else max(spam, _resolve_threshold(self.reject, promised))
        stands = isinstance(self.spam, FalsePositiveBudget) and promised[self.spam.rate].is_promised
        told = "; ".join(str(each) for each in promised.values())
        return Thresholds(min(self.unsure, spam), spam, reject, told, stands)


def spam_by_budget(
    policy: ThresholdPolicy, promised: Mapping[float, BudgetPromise], probability: float
) -> dict[float, bool]:
    """Whether each of the policy's budgets, by its rate, calls a message of this P(spam) spam."""
    found: dict[float, bool] = {}
    for each in (policy.spam, policy.reject):
        if isinstance(each, FalsePositiveBudget):
            found[each.rate] = found.get(each.rate, False) or probability >= _resolve_threshold(each, promised)
    return found


def _resolve_threshold(threshold: Threshold, promised: Mapping[float, BudgetPromise]) -> float:
    if not isinstance(threshold, FalsePositiveBudget):
        return threshold
    found = promised[threshold.rate].threshold
    if found is not None:
        return found
    return math.inf if threshold.until_promised is None else threshold.until_promised
