"""The thresholds that ``tune`` compares on the same mail: those in force, another file's, budgets, fixed ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.evaluation.tuning import Sample, moves, rates_of, unsure
from nbstream.policy.budget import biased
from nbstream.policy.policy import Budget, Policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.tuning import Moves, Rates, Unsure
    from nbstream.policy.first_scores import FirstScores
    from nbstream.policy.verdict import Thresholds

BUDGETS = (0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
"""Shares of the ham that may be called spam."""

FIXED = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""P(spam): what is right where a ham lost costs 1, 9, 19, 99, 999, 9999 spam passed."""

_USUAL_RATIO = 19.0


@dataclass(frozen=True, slots=True)
class Choice:
    """One set of thresholds, what it would have done, and what it changes against the present one.

    ``setting`` is how it stands in a file's ``verdict`` section.
    """

    name: str
    setting: str
    thresholds: Thresholds
    rates: Rates
    unsure: Unsure
    moves: Moves

    @property
    def spam_from(self) -> float:
        """P(spam) from which a message is called spam, refused or not; infinite: never."""
        return self.thresholds.spam


@dataclass(frozen=True, slots=True)
class Tuning:
    """The stored scores, and what each choice would have made of them.

    ``cost_ratio`` is how many spam passed a ham lost costs.
    """

    sample: Sample
    biased: bool
    cost_ratio: float
    present: Choice
    other: Choice | None
    budgets: Sequence[Choice]
    fixed: Sequence[Choice]

    def by_threshold(self) -> list[Choice]:
        """What a table shows: the two policies, and each choice with a threshold of its own; the lowest first."""
        own = [self.present, *([self.other] if self.other else [])]
        reached = [choice for choice in self.budgets if math.isfinite(choice.spam_from)]
        known = {choice.spam_from for choice in own}
        fixed = [choice for choice in self.fixed if choice.spam_from not in known]
        return sorted([*own, *reached, *fixed], key=lambda choice: choice.spam_from)


def tuning(first_scores: FirstScores, present: Policy, other: tuple[str, Policy] | None = None) -> Tuning:
    """Everything that is told of ``first_scores``; ``other`` is compared under its name."""
    sample = Sample.of(first_scores)
    now = present.thresholds(first_scores)

    def choice(name: str, policy: Policy) -> Choice:
        would = policy.thresholds(first_scores)
        return Choice(
            name, _setting(policy), would,
            rates_of(sample, would), unsure(sample, would), moves(sample, now, would),
        )  # fmt: skip

    return Tuning(
        sample,
        biased(first_scores["ham"]),
        cost_ratio(present),
        choice("present", present),
        choice(*other) if other else None,
        [choice(f"budget {rate:g}", Policy(present.unsure, Budget(rate))) for rate in BUDGETS],
        [choice(f"fixed {p:g}", Policy(min(present.unsure, p), p)) for p in FIXED],
    )


def cost_ratio(policy: Policy) -> float:
    """How many spam passed a lost ham costs, if a fixed threshold was chosen for that: P / (1 - P); else 19."""
    if isinstance(policy.spam, Budget) or policy.spam >= 1:
        return _USUAL_RATIO
    return round(policy.spam / (1 - policy.spam), 6)


def _setting(policy: Policy) -> str:
    if isinstance(policy.spam, Budget):
        return f"max_false_positive_rate: {policy.spam.rate:g}"
    return f"spam: {policy.spam:g}"
