"""How a budget of false positives was kept over a run.

Rules: pure; counted from the first message for which the budget was promised, whatever became of that later; where
it never was, over all messages.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.policy.budget import binomial_cumulative

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.evaluation.measures import FloatArray
    from nbstream.evaluation.run import EvaluationRow

_PATH_STEP = 1000


@dataclass(frozen=True, slots=True)
class BudgetOutcome:
    """What was asked and what came of it; shares are from 0 to 1.

    ``since`` is the number of the first message under the promise, from 1 on, None where there was none; then no
    judgement is given, and the counts are of the whole run. ``ham`` is how many came from there on and
    ``ham_lost`` how many of them were called spam, which is the share ``realised``. ``p_value`` is the
    probability of so many or more if the true rate were just what was asked: below 0.05 the budget was
    overdrawn. ``spam_missed`` compares with ``spam_missed_best``, that of the lowest fixed threshold that would
    have kept the budget, known only afterwards.
    """

    asked: float
    since: int | None
    ham: int
    ham_lost: int
    realised: float | None
    p_value: float | None
    spam_missed: float | None
    spam_missed_best: float | None

    def to_text(self) -> str:
        """One line for a reader."""
        asked = f"budget of {100 * self.asked:g} % of the ham"
        if self.since is None or self.realised is None:
            lost = "" if self.realised is None else f"; {self.ham_lost} of {self.ham} were lost all the same"
            return f"{asked}: was never promised{lost}"
        missed = "" if self.spam_missed is None else f"; spam missed {100 * self.spam_missed:.2f} %"
        best = (
            "" if self.spam_missed_best is None else f" (best fixed threshold {100 * self.spam_missed_best:.2f} %)"
        )
        lost = f"lost {self.ham_lost} of {self.ham} ham, {100 * self.realised:.3f} %"
        return f"{asked}: promised from message {self.since} on, {lost} (p {self.p_value:.2f}){missed}{best}"


def budget_outcome(rows: Sequence[EvaluationRow], rate: float) -> BudgetOutcome:
    """How ``rate`` was kept by the verdicts of ``rows``."""
    since = next((index for index, row in enumerate(rows) if row.thresholds.promised), None)
    under = rows[since or 0 :]
    is_spam = np.array([row.label == "spam" for row in under], dtype=np.bool_)
    called = np.array([row.verdict.is_spam for row in under], dtype=np.bool_)
    probability = np.array([row.probability for row in under], dtype=np.float64)
    ham, lost = int((~is_spam).sum()), int((called & ~is_spam).sum())
    return BudgetOutcome(
        asked=rate,
        since=None if since is None else since + 1,
        ham=ham,
        ham_lost=lost,
        realised=lost / ham if ham else None,
        p_value=_binomial_tail(ham, rate, lost) if ham and since is not None else None,
        spam_missed=float((~called[is_spam]).mean()) if is_spam.any() else None,
        spam_missed_best=None
        if since is None
        else _best_spam_missed(probability[~is_spam], probability[is_spam], rate),
    )


def threshold_path(rows: Sequence[EvaluationRow]) -> list[dict[str, float | int | None]]:
    """The thresholds that decided every thousandth message; None is one that could not be reached, or not set."""
    return [
        {
            "message": number,
            "unsure": _finite_or_none(rows[number - 1].thresholds.unsure),
            "spam": _finite_or_none(rows[number - 1].thresholds.spam),
            "reject": _finite_or_none(rows[number - 1].thresholds.reject),
        }
        for number in range(_PATH_STEP, len(rows) + 1, _PATH_STEP)
    ]


def _binomial_tail(n: int, rate: float, lost: int) -> float:
    """P(Binomial(n, rate) >= lost)."""
    return 1.0 if lost == 0 else max(0.0, 1.0 - float(binomial_cumulative(n, rate, lost - 1)[-1]))


def _best_spam_missed(ham: FloatArray, spam: FloatArray, rate: float) -> float | None:
    if not len(ham) or not len(spam):
        return None
    allowed = math.floor(rate * len(ham) + 1e-9)
    return float((spam <= np.sort(ham)[-1 - allowed]).mean()) if allowed < len(ham) else 0.0


def _finite_or_none(threshold: float | None) -> float | None:
    return threshold if threshold is not None and math.isfinite(threshold) else None
