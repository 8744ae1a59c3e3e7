"""The outcome of a false-positive budget in a run: how many ham were called spam while the budget was promised.

Rules: pure. Messages count from the first one for which the budget was promised, even if the promise was lost
later; if it was never promised, all messages count.
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
    """The budget and its outcome; all shares are from 0 to 1.

    ``asked`` is the budget, the largest share of ham that may be called spam. ``since`` is the number of the first
    message with a promise, counted from 1; if it is None, there was no promise, no judgement is given, and the
    counts are of the whole run. ``ham`` is the number of ham from there on, ``ham_lost`` the number of them that
    were called spam, and ``realised`` their share. ``p_value`` is the probability of ``ham_lost`` or more if the
    true rate were exactly the budget: below 0.05 the budget was overdrawn. ``spam_missed`` is a share of the spam,
    to be compared with ``spam_missed_best``, that of the lowest fixed threshold that would have kept the budget,
    which is known only afterwards.
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
        """Return the outcome as one line of text."""
        budget = f"budget of {100 * self.asked:g} % of the ham"
        if self.since is None or self.realised is None:
            lost = "" if self.realised is None else f"; {self.ham_lost} of {self.ham} were lost all the same"
            return f"{budget}: was never promised{lost}"
        missed = "" if self.spam_missed is None else f"; spam missed {100 * self.spam_missed:.2f} %"
        best = (
            "" if self.spam_missed_best is None else f" (best fixed threshold {100 * self.spam_missed_best:.2f} %)"
        )
        lost = f"lost {self.ham_lost} of {self.ham} ham, {100 * self.realised:.3f} %"
        return f"{budget}: promised from message {self.since} on, {lost} (p {self.p_value:.2f}){missed}{best}"


def budget_outcome(rows: Sequence[EvaluationRow], rate: float) -> BudgetOutcome:
    """Return how the verdicts of ``rows`` kept a budget of ``rate``."""
    since = next((index for index, row in enumerate(rows) if row.thresholds.promised), None)
    counted_rows = rows[since or 0 :]
    is_spam = np.array([row.label == "spam" for row in counted_rows], dtype=np.bool_)
    called_spam = np.array([row.verdict.is_spam for row in counted_rows], dtype=np.bool_)
    probability = np.array([row.probability for row in counted_rows], dtype=np.float64)
    ham, ham_lost = int((~is_spam).sum()), int((called_spam & ~is_spam).sum())
    return BudgetOutcome(
        asked=rate,
        since=None if since is None else since + 1,
        ham=ham,
        ham_lost=ham_lost,
        realised=ham_lost / ham if ham else None,
        p_value=overdrawn_p_value(ham, rate, ham_lost) if ham and since is not None else None,
        spam_missed=float((~called_spam[is_spam]).mean()) if is_spam.any() else None,
        spam_missed_best=None
        if since is None
        else _best_spam_missed(probability[~is_spam], probability[is_spam], rate),
    )


def overdrawn_p_value(n: int, rate: float, lost: int) -> float:
    """Return P(Binomial(n, rate) >= lost): how likely it is to lose so many of ``n`` ham, or more, at this rate.

    Below 0.05 the budget was hardly kept.
    """
    return 1.0 if lost == 0 else max(0.0, 1.0 - float(binomial_cumulative(n, rate, lost - 1)[-1]))


def threshold_path(rows: Sequence[EvaluationRow]) -> list[dict[str, float | int | None]]:
    """Return the thresholds of every thousandth message; None is a threshold out of reach, or not set."""
    return [
        {
            "message": number,
            "unsure": _finite_or_none(rows[number - 1].thresholds.unsure),
            "spam": _finite_or_none(rows[number - 1].thresholds.spam),
            "reject": _finite_or_none(rows[number - 1].thresholds.reject),
        }
        for number in range(_PATH_STEP, len(rows) + 1, _PATH_STEP)
    ]


def _best_spam_missed(ham: FloatArray, spam: FloatArray, rate: float) -> float | None:
    if not len(ham) or not len(spam):
        return None
    max_ham_lost = math.floor(rate * len(ham) + 1e-9)
    return float((spam <= np.sort(ham)[-1 - max_ham_lost]).mean()) if max_ham_lost < len(ham) else 0.0


def _finite_or_none(threshold: float | None) -> float | None:
    return threshold if threshold is not None and math.isfinite(threshold) else None
