"""A false-positive budget: the lowest threshold that keeps the share of ham called spam within a rate.

Rules: pure. The result depends on the first scores of ham and on nothing else. Therefore all who have the same
first scores decide alike, and a message that is unlearned leaves no trace.

The threshold is an order statistic. Let n be the number of ham whose first scores are known, alpha the rate, and
delta = 5 %. The filter takes the largest number j for which this holds: if the true rate were alpha, j ham or
fewer would lie above the threshold with a probability of at most delta (binomial tail). The threshold is then the
lowest that no more than j of the n ham reach. For ham like the ham seen so far, the rate is within alpha with a
confidence of 1 - delta (Tong, Feng, Li, "Neyman-Pearson classification algorithms and NP receiver operating
characteristics", 2018). Even j = 0 needs ln(delta) / ln(1 - alpha) ham: 2,995 for a rate of 0.1 %.

This rule alone is too cautious, for two reasons. A filter that learns scores better now than its old first
scores show. And a confidence of 95 % at each moment is more than the budget asks for, which is a rate over time.
Therefore the threshold also depends on the ham that was really called spam. The credit is the number of ham that
the rate allows to be called spam, of all ham that came while it was to be kept, minus the number that was called
spam. For example, of 5,000 ham a rate of 0.1 % allows 5; if 2 were called spam, the credit is 3. alpha is
multiplied by 1 + credit / 2, but by no less than 1/10 and no more than 3. Ham that came before the budget could be
kept, and was not called spam, counts as well. In this way the rate is kept over all ham in the long run, and no
moment allows more than three times the rate.

The credit is at most 8 ham. Without this bound a large archive of ham, learned at once, would give a credit that
lasts for months: up to 5.8 % of ham was called spam with a budget of 1 % (see docs/experiments.md, also for the
other rules that were tried).

All of this needs labels of all ham. Where people label errors alone, nothing is promised.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from nbstream.policy.first_scores import FirstScoreWindow

_CREDIT_GAIN = 0.5  # per ham of credit
_MIN_RATE_FACTOR, _MAX_RATE_FACTOR = 0.1, 3.0
_MAX_CREDIT_HAM = 8.0  # ham of credit; from 4 on alpha is at its maximum
_BIAS_WINDOW_HAM = 200  # the last ham, by which a sample is called biased or not
_MIN_BIAS_HAM = 20  # with fewer ham a sample is not judged
_WRONG_SIDE_PROBABILITY = 0.5  # P(spam)
# With a smaller share of ham on the right side, labels look like corrections only; see bayes.calibration.
_MIN_RIGHT_SHARE = 0.8

PROMISE_DELTA = 0.05
"""The probability with which a promise may be broken (delta)."""


def ham_needed(rate: float) -> int:
    """Return the least number n of ham after which ``rate`` can be promised.

    (1 - rate)^n <= delta; see the top of this module.
    """
    n = math.ceil(math.log(PROMISE_DELTA) / math.log1p(-rate))
    is_enough = math.exp(n * math.log1p(-rate)) <= PROMISE_DELTA * (1 + 1e-12)  # the quotient was rounded
    return n if is_enough else n + 1


@dataclass(frozen=True, slots=True)
class BudgetPromise:
    """Whether a rate can be promised, and the P(spam) from which a message is called spam to keep it.

    ``threshold`` is None where nothing can be promised yet; ``ham_missing`` is the number of ham that are needed
    for that. Where ``is_biased``, the labels look like corrections only: nothing is promised, and the threshold is
    that of the time before.
    """

    rate: float
    threshold: float | None
    ham_missing: int = 0
    is_biased: bool = False

    @property
    def is_promised(self) -> bool:
        """True while the rate is promised."""
        return self.threshold is not None and not self.is_biased

    def __str__(self) -> str:
        rate = f"{100 * self.rate:g} %"
        if self.is_biased:
            return f"biased sample, {rate} cannot be promised"  # no colon: see policy.quoted_ids
        return (
            f"promised {rate}"
            if self.threshold is not None
            else f"needs {self.ham_missing:,} more ham to promise {rate}"
        )


def budget_promise(ham: FirstScoreWindow, rate: float) -> BudgetPromise:
    """Return the promise for ``rate``, a share above 0 and at most 1/2, by these first scores of ham."""
    return budget_promises(ham, (rate,))[rate]


def budget_promises(ham: FirstScoreWindow, rates: Collection[float]) -> dict[float, BudgetPromise]:
    """Return the promise for each of ``rates``; what does not depend on the rate is computed once."""
    if not rates:
        return {}
    if is_biased_sample(ham):
        before_bias = _probabilities_before_bias(ham)
        return {rate: _promise_before_bias(before_bias, rate) for rate in rates}
    return {rate: _promise_now(ham, rate) for rate in rates}


def _promise_now(ham: FirstScoreWindow, rate: float) -> BudgetPromise:
    needed = ham_needed(rate) - len(ham)
    if needed > 0:
        return BudgetPromise(rate, None, needed)
    allowed = _allowed_with_credit(ham, rate)
    return BudgetPromise(rate, _lowest_threshold(ham.ascending_probabilities, allowed))


@lru_cache(maxsize=1024)
def allowed_false_positives(n: int, rate: float) -> int:
    """Return the largest j with P(Binomial(n, rate) <= j) <= delta, or -1 where there is none.

    A threshold that calls j of n ham spam keeps ``rate`` with a confidence of 1 - delta.
    """
    median = math.ceil(n * rate)  # or one less
    return (
        int(np.searchsorted(binomial_cumulative(n, rate, median), PROMISE_DELTA * (1 + 1e-12), side="right")) - 1
    )


def binomial_cumulative(n: int, rate: float, last: int) -> NDArray[np.float64]:
    """Return P(Binomial(n, rate) <= j) for j from 0 to ``last``: an array of shape (last + 1,)."""
    j = np.arange(1, last + 1)
    with np.errstate(divide="ignore"):  # beyond n the terms are 0
        log_ratios = np.log(np.maximum(n - j + 1, 0) / j) + math.log(rate) - math.log1p(-rate)
    log_terms = n * math.log1p(-rate) + np.concatenate([[0.0], np.cumsum(log_ratios)])
    cumulative: NDArray[np.float64] = np.minimum(np.cumsum(np.exp(log_terms)), 1.0)
    return cumulative


def _allowed_with_credit(ham: FirstScoreWindow, rate: float) -> int:
    """Return how many of the ham may lie above the threshold, by the rate and by the credit of the budget."""
    credit = ham.budget_credit(rate, _MAX_CREDIT_HAM)
    factor = max(_MIN_RATE_FACTOR, min(_MAX_RATE_FACTOR, 1 + _CREDIT_GAIN * credit))
    return max(0, allowed_false_positives(len(ham), min(0.5, rate * factor)))


def _lowest_threshold(ascending_probabilities: Sequence[float], allowed: int) -> float:
    """Return the lowest P(spam) that no more than ``allowed`` of the probabilities reach."""
    return math.nextafter(ascending_probabilities[-1 - allowed], math.inf)


def is_biased_sample(ham: FirstScoreWindow) -> bool:
    """Whether many of the last labelled ham had scores on the wrong side.

    Where people label all ham, few are on the wrong side. Many of them mean that people label only errors.
    """
    probabilities = ham.recent_probabilities(_BIAS_WINDOW_HAM)
    right = sum(probability < _WRONG_SIDE_PROBABILITY for probability in probabilities)
    return len(probabilities) >= _MIN_BIAS_HAM and right < _MIN_RIGHT_SHARE * len(probabilities)


def _probabilities_before_bias(ham: FirstScoreWindow) -> NDArray[np.float64]:
    """Return P(spam) of the ham that came before the sample was biased."""
    probabilities = np.array(ham.recent_probabilities())
    right = np.concatenate([[0], np.cumsum(probabilities < _WRONG_SIDE_PROBABILITY)])
    ends = np.arange(len(right))
    starts = np.maximum(ends - _BIAS_WINDOW_HAM, 0)
    unbiased = np.flatnonzero(right - right[starts] >= _MIN_RIGHT_SHARE * (ends - starts))  # 0 is always one
    return probabilities[: int(unbiased[-1])]


def _promise_before_bias(probabilities: NDArray[np.float64], rate: float) -> BudgetPromise:
    """Return the threshold by the ham that came before the sample was biased, or None where there are too few."""
    n = len(probabilities)
    if n < ham_needed(rate):
        return BudgetPromise(rate, None, is_biased=True)
    # The highest score that stays below the threshold. A partition finds it without sorting all scores, which
    # would take most of the time.
    position = n - 1 - allowed_false_positives(n, rate)
    highest = float(np.partition(probabilities, position)[position])
    return BudgetPromise(rate, math.nextafter(highest, math.inf), is_biased=True)
