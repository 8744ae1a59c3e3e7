"""A budget of false positives: the lowest threshold that keeps the share of ham called spam within a rate.

Rules: pure; a function of the first scores of ham and nothing else, so all who hold the same scores decide alike,
and what is unlearned is as if it had never come.

The threshold is an order statistic: of n ham so many may lie above it, j, that a filter whose true rate is alpha
would put j or fewer there with a probability of delta at most (binomial tail). So the rate is within alpha with
confidence 1 - delta for ham like that seen (Tong, Feng, Li, "Neyman-Pearson classification algorithms and NP
receiver operating characteristics", 2018). With j = 0 that takes ln(delta) / ln(1 - alpha) ham: 2,995 for 0.1 %.

On its own that is too cautious: the scores of a filter that learns get better than those that were kept, and a
confidence of 95 % at each moment is more than a rate kept over time. So what was really lost steers: the ham that
the budget still allows, of all that came while it was to be kept, is a credit, and alpha is multiplied by
1 + credit / 2, from 1/10 to 3. Ham that came before the promise and was not called spam counts: it has spent
nothing. So the rate over all ham is kept in the long run, and at no moment is three times the rate allowed for.
The credit is never more than 8 ham: else it takes months to lose what a large archive saved up at once. Behind
20,000 ham drawn from the easy part of a stream, its 4,000 to 6,000 ham lost 1.4 to 2.8 % to a budget of 0.5 %, and
2.5 to 5.8 % to one of 1 %; with that bound 0.5 to 0.7 %, and 1.0 to 1.2 %.
What was tried, as the share of ham called spam | of spam missed, both after the promise, on SpamAssassin 2002h2 at
0.5 % | at 1 % | shuffled at 0.1 % | at 1 %:

- no credit: 0.17, 11.8 | 0.23, 5.6 | 0.00, 8.0 | 0.55, 1.2
- as it is: 0.42, 3.3 | 0.78, 1.2 | 0.00, 2.7 | 0.75, 0.6
- at most twice alpha: 0.25, 4.9 | 0.52, 2.2 | 0.00, 3.4 | 0.68, 0.8
- at most ten times: 0.48, 3.3 | 0.96, 1.2 | 0.00, 2.7 | 0.86, 0.5
- only the ham since the promise, up to ten times: 0.42, 6.8 | 0.89, 1.7 | 0.00, 6.5 | 0.81, 0.7
- the whole credit instead of half, up to ten times: 0.54, 2.0 | 1.04, 0.7 | 0.09, 1.7 | 0.96, 0.4
- the last 600 to 6,000 ham only instead of all, which fewer old scores spoil, is worse but for the smallest rate.
- log-odds before calibration instead of P(spam), no credit: 0.11, 24.8 | 0.18, 13.7 | 0.00, 8.4 | 0.42, 2.2

Later, with better scores: a credit of any size 0.45, 3.0 | 0.81, 1.0 | 0.00, 2.5 | 0.75, 0.6; of 8 at most the
same but for 0.75, 1.0 in the second place; of 4 at most 0.34, 3.3 | 0.62, 1.6 | 0.00, 2.5 | 0.70, 0.7.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from nbstream.policy.config_bounds import PROMISE_DELTA, ham_needed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.policy.first_scores import FirstScoreWindow

_CREDIT_GAIN = 0.5  # per ham of credit
_MIN_RATE_FACTOR, _MAX_RATE_FACTOR = 0.1, 3.0
_MAX_CREDIT_HAM = 8.0  # ham of credit; from 4 on alpha is at its most
_BIAS_WINDOW_HAM = 200  # ham by which a sample is called biased
_MIN_BIAS_HAM = 20  # ham below which it is not judged
_WRONG_SIDE_PROBABILITY = 0.5  # P(spam)
_MIN_RIGHT_SHARE = (
    0.8  # the share on the right side below which labels look like corrections; see bayes.calibration
)


@dataclass(frozen=True, slots=True)
class BudgetPromise:
    """Whether a rate can be promised, and the P(spam) from which a message is then called spam.

    ``threshold`` is None where nothing can be promised yet: ``needed`` ham more are to be seen. ``is_biased``: the
    labels look like corrections only, so nothing is promised, and the threshold is the one of before.
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
            return f"biased sample, {rate} cannot be promised"  # no colon: see policy.quoted
        return (
            f"promised {rate}"
            if self.threshold is not None
            else f"needs {self.ham_missing:,} more ham to promise {rate}"
        )


def budget_promise(ham: FirstScoreWindow, rate: float) -> BudgetPromise:
    """What can be promised for ``rate``, a share above 0 and at most 1/2, by these first scores of ham."""
    if is_biased_sample(ham):
        return _promise_before_bias(ham, rate)
    needed = ham_needed(rate) - len(ham)
    if needed > 0:
        return BudgetPromise(rate, None, needed)
    return BudgetPromise(rate, _lowest_threshold(ham.ascending_probabilities, _allowed_with_credit(ham, rate)))


@lru_cache(maxsize=1024)
def allowed_false_positives(n: int, rate: float) -> int:
    """The largest j with P(Binomial(n, rate) <= j) <= delta; -1 where there is none.

    So many of n ham may be called spam by a threshold that keeps ``rate`` with confidence 1 - delta.
    """
    median = math.ceil(n * rate)  # or one less
    return (
        int(np.searchsorted(binomial_cumulative(n, rate, median), PROMISE_DELTA * (1 + 1e-12), side="right")) - 1
    )


def binomial_cumulative(n: int, rate: float, last: int) -> NDArray[np.float64]:
    """P(Binomial(n, rate) <= j) for j from 0 to ``last``."""
    j = np.arange(1, last + 1)
    with np.errstate(divide="ignore"):  # beyond n the terms are 0
        log_ratios = np.log(np.maximum(n - j + 1, 0) / j) + math.log(rate) - math.log1p(-rate)
    log_terms = n * math.log1p(-rate) + np.concatenate([[0.0], np.cumsum(log_ratios)])
    cumulative: NDArray[np.float64] = np.minimum(np.cumsum(np.exp(log_terms)), 1.0)
    return cumulative


def _allowed_with_credit(ham: FirstScoreWindow, rate: float) -> int:
    """How many of the ham may lie above the threshold, by the rate and by what is left of the budget."""
    factor = max(
        _MIN_RATE_FACTOR, min(_MAX_RATE_FACTOR, 1 + _CREDIT_GAIN * ham.budget_credit(rate, _MAX_CREDIT_HAM))
    )
    return max(0, allowed_false_positives(len(ham), min(0.5, rate * factor)))


def _lowest_threshold(ascending: Sequence[float], above: int) -> float:
    """The lowest P(spam) that no more than ``above`` of these reach."""
    return math.nextafter(ascending[-1 - above], math.inf)


def is_biased_sample(ham: FirstScoreWindow) -> bool:
    """Whether many of the last ham had been on the wrong side: people who label everything see few such."""
    probabilities = ham.recent_probabilities(_BIAS_WINDOW_HAM)
    right = sum(each < _WRONG_SIDE_PROBABILITY for each in probabilities)
    return len(probabilities) >= _MIN_BIAS_HAM and right < _MIN_RIGHT_SHARE * len(probabilities)


def _promise_before_bias(ham: FirstScoreWindow, rate: float) -> BudgetPromise:
    """The threshold by the ham that came before the sample was biased, None where those were too few."""
    probabilities = np.array(ham.recent_probabilities())
    right = np.concatenate([[0], np.cumsum(probabilities < _WRONG_SIDE_PROBABILITY)])
    ends = np.arange(len(right))
    starts = np.maximum(ends - _BIAS_WINDOW_HAM, 0)
    unbiased = np.flatnonzero(right - right[starts] >= _MIN_RIGHT_SHARE * (ends - starts))  # 0 is one
    n = int(unbiased[-1])
    if n < ham_needed(rate):
        return BudgetPromise(rate, None, is_biased=True)
    place = (
        n - 1 - allowed_false_positives(n, rate)
    )  # in ascending order; sorting all of them would take most of the time
    highest = float(np.partition(probabilities[:n], place)[place])
    return BudgetPromise(rate, math.nextafter(highest, math.inf), is_biased=True)
