"""The multinomial event model: how much a token's counts speak for one class against another."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals

HAM, SPAM = CLASSES.index("ham"), CLASSES.index("spam")


def log_ratios(counts: NDArray[np.int64], totals: Totals, smoothing: float) -> NDArray[np.float64]:
    """Per token ln P(token | spam) - ln P(token | ham), in nats; 0 for a token never seen.

    P(token | class) = (n + alpha) / (N + alpha V), with n the token's count in the class, N the sum of all
    counts of the class, V the vocabulary and alpha ``smoothing`` (Lidstone's estimate in the multinomial model of
    McCallum and Nigam, "A comparison of event models for naive Bayes text classification", 1998). A negative
    count, seen while changes are on their way, reads as 0.
    """
    seen = np.maximum(counts, 0) / WEIGHT_ONE
    sums = np.maximum(totals.tokens, 0) / WEIGHT_ONE + smoothing * max(totals.vocabulary, 1)
    smoothed = seen + smoothing
    ratios = np.log(smoothed[:, SPAM] / smoothed[:, HAM]) + np.log(sums[HAM] / sums[SPAM])
    ratios[~seen.any(axis=1)] = 0.0
    return ratios  # type: ignore[no-any-return]  # numpy types the sum of arrays as Any
