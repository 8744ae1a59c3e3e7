"""The measures of a filter, as TREC's spam track defines them, and the confidence intervals of rates.

Rules: pure numpy over arrays with one value for each message. A measure that is undefined, because there is no
ham or no spam, is None, never nan and never an error. Percentages are from 0 to 100 (Cormack, "TREC 2007 Spam
Track Overview").

All confidence intervals are two-sided, for 95 %, and each one holds for itself, not for a whole curve at once.
Without any message the interval is from 0 to 1, because the rate may be anything. The formulas assume that
messages are independent; spam comes in campaigns, therefore the intervals of spam are rather too narrow. The
interval is Wilson's score interval ("Probable inference", 1927). It has a closed form, is never below 0 or above
1, and its coverage is near 95 % even if none or few of many messages were counted (Brown, Cai, DasGupta,
"Interval estimation for a binomial proportion", 2001).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.numpy_on_demand import np
from nbstream.policy.thresholds import binomial_cumulative

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray: TypeAlias = NDArray[np.bool_]
    FloatArray: TypeAlias = NDArray[np.float64]

_BINS = 15
_Z = 1.959963984540054  # 2.5 % of the normal distribution lies above


def one_minus_auc_percent(is_spam: BoolArray, score: FloatArray) -> float | None:
    """Return 100 x (1 - area under the ROC curve): the share of pairs of a ham and a spam in the wrong order.

    Equal scores count half (the rank sum of Mann and Whitney). The pairs are counted in integers, so it is exact.
    """
    hams, spams = np.sort(score[~is_spam]), score[is_spam]
    if not len(hams) or not len(spams):
        return None
    hams_not_above = np.searchsorted(hams, spams, side="right")
    hams_below = np.searchsorted(hams, spams, side="left")
    twice_wrong_pairs = int((2 * len(hams) - hams_not_above - hams_below).sum())
    return 100.0 * twice_wrong_pairs / (2 * len(hams) * len(spams))


def fn_at_fp_percent(is_spam: BoolArray, score: FloatArray, rate: float) -> float | None:
    """Return the percentage of spam that is missed if ``rate`` (below 1) of the ham may be called spam.

    The threshold is the lowest one with at most floor(rate x ham) ham at or above it; spam from there on is
    caught. Spam and ham with equal scores are therefore on the same side: a tie is never resolved in favour of the
    filter.
    """
    hams, spams = np.sort(score[~is_spam])[::-1], score[is_spam]
    if not len(hams) or not len(spams):
        return None
    max_ham_lost = math.floor(rate * len(hams) + 1e-9)  # 0.29 x 100 is 28.999999999999996
    # The threshold is just above the score of the first ham that must not be lost.
    return 100.0 * int((spams <= hams[max_ham_lost]).sum()) / len(spams)


def hm_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """Return the percentage of ham that was called spam (ham misclassification)."""
    return _percent(called_spam[~is_spam])


def sm_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """Return the percentage of spam that was not called spam (spam misclassification)."""
    return _percent(~called_spam[is_spam])


def lam_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """Return the logit average of hm and sm, logit^-1((logit hm + logit sm) / 2), in percent.

    The logits of 0 and 1 are infinite. If none of n messages is misclassified, half a message of n + 1 is counted
    instead, a rate of 1 / (2n + 2); if all are, its complement.
    """
    wrong_ham, wrong_spam = called_spam[~is_spam], ~called_spam[is_spam]
    if not len(wrong_ham) or not len(wrong_spam):
        return None
    mean = (_logit(wrong_ham) + _logit(wrong_spam)) / 2
    return 100.0 / (1.0 + math.exp(-mean))


def expected_calibration_error(is_spam: BoolArray, probability: FloatArray, bins: int = _BINS) -> float | None:
    """Return the mean distance of P(spam) from the share of spam, over ``bins`` bins of equally many messages.

    It is the sum over bins of n_b / n x |mean probability - share of spam| (Naeini, Cooper, Hauskrecht, "Obtaining
    well calibrated probabilities using Bayesian binning", 2015). Equal probabilities share a bin, so that the
    order of the stream does not matter.
    """
    n = len(probability)
    if not n:
        return None
    order = np.argsort(probability)
    sorted_probability, sorted_is_spam = probability[order], is_spam[order].astype(np.float64)
    last_of_bin = -(-np.arange(1, bins + 1) * n // bins) - 1
    ends = np.unique(np.searchsorted(sorted_probability, sorted_probability[last_of_bin], side="right"))
    starts = np.concatenate([[0], ends[:-1]])
    return float(np.abs(np.add.reduceat(sorted_probability - sorted_is_spam, starts)).sum() / n)


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """An estimate with the ends of its interval; nan is unknown."""

    value: float
    lower: float
    upper: float

    @classmethod
    def of_share(cls, count: int, n: int) -> IntervalEstimate:
        """Return the share of ``count`` out of ``n``, from 0 to 1."""
        if not n:
            return cls(math.nan, 0.0, 1.0)
        middle = (count + _Z**2 / 2) / (n + _Z**2)
        half_width = _Z / (n + _Z**2) * math.sqrt(count * (n - count) / n + _Z**2 / 4)
        # For counts of 0 and n the ends are exactly 0 and 1; the rounded formula might be outside of that.
        lower = max(middle - half_width, 0.0) if count else 0.0
        return cls(count / n, lower, min(middle + half_width, 1.0) if count < n else 1.0)

    def scaled(self, factor: float) -> IntervalEstimate:
        """Return the estimate multiplied by ``factor``, which is not negative."""
        return IntervalEstimate(factor * self.value, factor * self.lower, factor * self.upper)

    def __add__(self, other: IntervalEstimate) -> IntervalEstimate:
        """Return the sum of two independent estimates, with its interval.

        The distance of each end is the root of the sum of the squared distances of the two ends on that side (Zou,
        Donner, "Construction of confidence limits about effect measures", 2008). With Wilson's ends this is valid
        at rates near 0, too.
        """
        total = self.value + other.value
        return IntervalEstimate(
            total,
            total - math.hypot(self.value - self.lower, other.value - other.lower),
            total + math.hypot(self.upper - self.value, other.upper - other.value),
        )


def overdrawn_p_value(n: int, rate: float, lost: int) -> float:
    """Return P(Binomial(n, rate) >= lost): how likely it is to lose so many of ``n`` ham, or more, at this rate.

    Below 0.05 the budget was hardly kept.
    """
    return 1.0 if lost == 0 else max(0.0, 1.0 - float(binomial_cumulative(n, rate, lost - 1)[-1]))


def finite_or_none(value: float | None) -> float | None:
    """Return a number for JSON, which has none that is not finite: such a threshold is never reached."""
    return value if value is not None and math.isfinite(value) else None


def _percent(flags: BoolArray) -> float | None:
    return 100.0 * int(flags.sum()) / len(flags) if len(flags) else None


def _logit(wrong: BoolArray) -> float:
    count, n = float(wrong.sum()), len(wrong)
    if count in {0, n}:
        count, n = count + 0.5, n + 1
    return math.log(count / (n - count))
