"""A policy: it makes thresholds from the configuration and from the first scores of ham.

Rules: pure. A threshold has one of three forms. Two of them are numbers: a P(spam), or a cost ratio c of a lost
ham to a passed spam, which gives the P(spam) c / (1 + c) (see ``verdict``). The third is a false-positive budget,
whose threshold changes with what is learned.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.policy.budget import budget_promises
from nbstream.policy.verdict import SPAM_THRESHOLD, Thresholds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from nbstream.policy.budget import BudgetPromise
    from nbstream.policy.first_scores import FirstScores


@dataclass(frozen=True, slots=True)
class FalsePositiveBudget:
    """A threshold that comes from a budget: the lowest that keeps the share of ham above it within ``rate``.

    ``rate`` is above 0 and at most 1/2. ``until_promised`` is the threshold until the rate can be promised; None
    calls nothing spam until then.
    """

    rate: float
    until_promised: float | None = None


Threshold: TypeAlias = float | FalsePositiveBudget
"""A P(spam), or a budget that gives one."""


def threshold_of_cost_ratio(ratio: float) -> float:
    """Return the P(spam) from which on spam is more than ``ratio`` times as likely as ham."""
    return ratio / (1 + ratio)


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

    def budget_promises(self, first_scores: FirstScores) -> dict[float, BudgetPromise]:
        """Return the promise of each budget by its rate."""
        return budget_promises(first_scores["ham"], self.budget_rates)

    def thresholds(self, first_scores: FirstScores) -> Thresholds:
        """Return the thresholds that hold with these first scores."""
        return self.resolve_thresholds(self.budget_promises(first_scores))

    def resolve_thresholds(self, promises: Mapping[float, BudgetPromise]) -> Thresholds:
        """Return the thresholds that hold with these promises, by the rates of the budgets.

        A threshold for spam below ``unsure`` leaves no message unsure. The threshold for ``reject`` is never below
        that for spam.
        """
        spam = _resolve_threshold(self.spam, promises)
        reject = None if self.reject is None else max(spam, _resolve_threshold(self.reject, promises))
        is_promised = isinstance(self.spam, FalsePositiveBudget) and promises[self.spam.rate].is_promised
        text = "; ".join(str(promise) for promise in promises.values())
        return Thresholds(min(self.unsure, spam), spam, reject, text, is_promised)


def useless_budgets(policies: Iterable[ThresholdPolicy], first_scores: FirstScores) -> list[str]:
    """Return a sentence for each budget by which nothing is called spam now, because it cannot be promised yet."""
    budgets = {each.spam for each in policies if isinstance(each.spam, FalsePositiveBudget)}
    promises = budget_promises(first_scores["ham"], {budget.rate for budget in budgets})
    return [
        f"nothing is called spam by the budget of {budget.rate:g}: {promises[budget.rate]}. Until then "
        "verdict.until_promised can be a P(spam), such as 0.99"
        for budget in sorted(budgets, key=lambda budget: budget.rate)
        if _resolve_threshold(budget, promises) > 1
    ]


def spam_by_budget(
    policy: ThresholdPolicy, promises: Mapping[float, BudgetPromise], probability: float
) -> dict[float, bool]:
    """Return by the rate of each budget of the policy whether it calls a message with this P(spam) spam."""
    is_spam: dict[float, bool] = {}
    for threshold in (policy.spam, policy.reject):
        if isinstance(threshold, FalsePositiveBudget):
            reached = probability >= _resolve_threshold(threshold, promises)
            is_spam[threshold.rate] = is_spam.get(threshold.rate, False) or reached
    return is_spam


def _resolve_threshold(threshold: Threshold, promises: Mapping[float, BudgetPromise]) -> float:
    if not isinstance(threshold, FalsePositiveBudget):
        return threshold
    by_budget = promises[threshold.rate].threshold
    if by_budget is not None:
        return by_budget
    return math.inf if threshold.until_promised is None else threshold.until_promised
