"""The measures of a filter, as TREC's spam track defines them (Cormack, "TREC 2007 Spam Track Overview").

Rules: pure numpy over arrays with one value a message; what is undefined, since there is no ham or no spam, is
None, never nan and never an error. Percentages run from 0 to 100.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    BoolArray: TypeAlias = NDArray[np.bool_]
    FloatArray: TypeAlias = NDArray[np.float64]

_BINS = 15


def one_minus_auc_percent(is_spam: BoolArray, score: FloatArray) -> float | None:
    """100 x (1 - the area under the ROC curve): the share of pairs of a ham and a spam in the wrong order.

    Equal scores count half (the rank sum of Mann and Whitney). Counted in integers, so it is exact.
    """
    hams, spams = np.sort(score[~is_spam]), score[is_spam]
    if not len(hams) or not len(spams):
        return None
    not_above, below = np.searchsorted(hams, spams, side="right"), np.searchsorted(hams, spams, side="left")
    twice_wrong = int((2 * len(hams) - not_above - below).sum())
    return 100.0 * twice_wrong / (2 * len(hams) * len(spams))


def fn_at_fp_percent(is_spam: BoolArray, score: FloatArray, rate: float) -> float | None:
    """The percentage of spam that is missed when the threshold lets ``rate`` (below 1) of the ham be called spam.

    The threshold is the lowest with at most floor(rate x ham) ham at or above it, and spam from there on is
    caught. So of spam and ham with equal scores both are on the same side: a tie is never resolved in favour of
    the filter.
    """
    hams, spams = np.sort(score[~is_spam])[::-1], score[is_spam]
    if not len(hams) or not len(spams):
        return None
    allowed = math.floor(rate * len(hams) + 1e-9)  # 0.29 x 100 is 28.999999999999996
    # A threshold keeps the first ham out that must not be lost: it is above that one's score.
    return 100.0 * int((spams <= hams[allowed]).sum()) / len(spams)


def hm_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """The percentage of ham that was called spam."""
    return _percent(called_spam[~is_spam])


def sm_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """The percentage of spam that was called anything else."""
    return _percent(~called_spam[is_spam])


def lam_percent(is_spam: BoolArray, called_spam: BoolArray) -> float | None:
    """The logit average of hm and sm: logit^-1((logit hm + logit sm) / 2), in percent.

    The logit of 0 and of 1 is infinite: where none of n messages is misjudged, or all are, half a message is
    taken to be so, or not to be, of n + 1: rates of 1 / (2n + 2) and its complement.
    """
    wrong_ham, wrong_spam = called_spam[~is_spam], ~called_spam[is_spam]
    if not len(wrong_ham) or not len(wrong_spam):
        return None
    mean = (_logit(wrong_ham) + _logit(wrong_spam)) / 2
    return 100.0 / (1.0 + math.exp(-mean))


def expected_calibration_error(is_spam: BoolArray, probability: FloatArray, bins: int = _BINS) -> float | None:
    """How far P(spam) is from the share of spam, on average over ``bins`` bins with as many messages each.

    The sum over bins of n_b / n x |mean probability - share of spam| (Naeini, Cooper, Hauskrecht, "Obtaining well
    calibrated probabilities using Bayesian binning", 2015). Equal probabilities share a bin, so that the order
    of the stream does not matter.
    """
    n = len(probability)
    if not n:
        return None
    order = np.argsort(probability)
    ordered, spam = probability[order], is_spam[order].astype(np.float64)
    last = -(-np.arange(1, bins + 1) * n // bins) - 1
    ends = np.unique(np.searchsorted(ordered, ordered[last], side="right"))
    starts = np.concatenate([[0], ends[:-1]])
    return float(np.abs(np.add.reduceat(ordered - spam, starts)).sum() / n)


def roc_percent(is_spam: BoolArray, score: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The ROC curve: ham called spam and spam missed, in percent, for each threshold from strict to lenient.

    Needs ham and spam.
    """
    order = np.argsort(-score)
    ordered, spam = score[order], is_spam[order]
    last = np.append(np.flatnonzero(np.diff(ordered)), len(ordered) - 1)  # of each run of equal scores
    caught = np.concatenate([[0], np.cumsum(spam)[last]])
    lost = np.concatenate([[0], np.cumsum(~spam)[last]])
    return 100.0 * lost / lost[-1], 100.0 * (1 - caught / caught[-1])


def _percent(flags: BoolArray) -> float | None:
    return 100.0 * int(flags.sum()) / len(flags) if len(flags) else None


def _logit(wrong: BoolArray) -> float:
    count, n = float(wrong.sum()), len(wrong)
    if count in {0, n}:
        count, n = count + 0.5, n + 1
    return math.log(count / (n - count))
