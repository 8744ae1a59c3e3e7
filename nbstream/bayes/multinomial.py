"""The multinomial event model: how probable each token is in each class, by its share of all tokens there.

Rules: pure; a negative count, seen while changes are on their way, reads as 0; a token never seen in any class
says nothing. Counts may be of occurrences, or of messages that hold the token: with these it is the multinomial
model with Boolean attributes of Metsis et al., "Spam filtering with naive Bayes - which naive Bayes?" (2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals

HAM, SPAM = CLASSES.index("ham"), CLASSES.index("spam")


@dataclass(frozen=True, slots=True)
class Lidstone:
    """Each token of the vocabulary is given ``alpha`` occurrences in each class; 1 is Laplace's rule."""

    alpha: float = 0.12

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha must be a number above 0: {self.alpha}")


@dataclass(frozen=True, slots=True)
class MEstimate:
    """Each class is given ``m`` occurrences in all, shared out among the tokens as they are over all classes."""

    m: float

    def __post_init__(self) -> None:
        if not 0 < self.m < math.inf:
            raise ValueError(f"m must be a number above 0: {self.m}")


Smoothing: TypeAlias = Lidstone | MEstimate


@dataclass(frozen=True, slots=True)
class MultinomialOptions:
    """``smoothing``, and whether a class is estimated from its ``complement``: all the other classes."""

    smoothing: Smoothing = Lidstone()
    complement: bool = False


def token_log_probabilities(
    counts: NDArray[np.int64],
    totals: Totals,
    params: MultinomialOptions = MultinomialOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Per token and class ln P(token | class), in nats; shape (tokens, classes), 0 for a token never seen.

    ``unit`` is the count of one occurrence.

    With n the token's count in the class, N the sum of all counts of the class and V the vocabulary:

    - Lidstone: (n + alpha) / (N + alpha V), in the multinomial model of McCallum and Nigam, "A comparison of event
      models for naive Bayes text classification" (1998), where alpha is 1.
    - m-estimate: (n + m p) / (N + m) (Mitchell, "Machine Learning", 1997, 6.9.1), with p the token's share of all
      tokens, all classes together. p = 1/V would be Lidstone with alpha = m/V: it draws each token towards the
      average one, more so in a small class, for which rare tokens then seem to speak. Drawn towards its own share,
      a token as frequent in one class as in another says nothing, however different their sizes are.

    The complement's rows are -ln P(token | all the other classes), which have more tokens to estimate from, and
    more evenly many (Rennie et al., "Tackling the poor assumptions of naive Bayes text classifiers", 2003, 3.1).
    Of two classes each is the other's complement, and the difference of the columns is the same as without.
    """
    seen = np.maximum(counts, 0)
    everywhere: NDArray[np.int64] = seen.sum(axis=1)
    sums = np.maximum(np.array(totals.tokens), 0)
    each, together = _pseudo_counts(everywhere, sums, totals.vocabulary_size, params.smoothing, unit)
    if params.complement:
        seen, sums = everywhere[:, np.newaxis] - seen, sums.sum() - sums
    rows: NDArray[np.float64] = np.log((seen + each) / (sums + together))
    if params.complement:
        rows = -rows
    rows[everywhere == 0] = 0.0
    return rows


def token_log_ratios(
    counts: NDArray[np.int64], totals: Totals, smoothing: float, unit: float = WEIGHT_ONE
) -> NDArray[np.float64]:
    """Per token ln P(token | spam) - ln P(token | ham), in nats; 0 for a token never seen.

    The difference of two columns of ``token_log_probabilities`` with Lidstone's alpha ``smoothing``, for every
    check: 8.5 µs for 243 tokens, where both columns take 14.5.
    """
    seen = np.maximum(counts, 0)
    smoothed = seen / unit
    smoothed += smoothing
    pseudo = smoothing * max(totals.vocabulary_size, 1)
    ham, spam = (max(totals.tokens[column], 0) / unit + pseudo for column in (HAM, SPAM))
    ratios: NDArray[np.float64] = smoothed[:, SPAM] / smoothed[:, HAM]
    np.log(ratios, out=ratios)
    ratios += math.log(ham / spam)
    ratios[(seen[:, SPAM] | seen[:, HAM]) == 0] = 0.0
    return ratios


def _pseudo_counts(
    everywhere: NDArray[np.int64], sums: NDArray[np.int64], vocabulary: int, smoothing: Smoothing, unit: float
) -> tuple[float | NDArray[np.float64], float]:
    """What is added to the counts of each token, and what that adds to a class's sum (both fixed point)."""
    if isinstance(smoothing, Lidstone):
        alpha = smoothing.alpha * unit
        return alpha, alpha * max(vocabulary, 1)
    m = smoothing.m * unit
    # Not below one unit, so that the logarithm is defined for tokens never seen, too.
    shares = np.maximum(everywhere, 1) / max(int(sums.sum()), 1)
    return m * shares[:, np.newaxis], m
