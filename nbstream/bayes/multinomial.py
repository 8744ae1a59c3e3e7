"""The multinomial event model: the probability of a token in a class is its share of all tokens of that class.

Rules: pure; a negative count, which can be seen while changes are on their way, is read as 0; a token that no
class has ever seen says nothing. Counts may be of occurrences, or of messages that have the token: in the second
case this is the multinomial model with Boolean attributes of Metsis et al., "Spam filtering with naive Bayes -
which naive Bayes?" (2006).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.bayes.counts import CLASSES, WEIGHT_ONE
from nbstream.bayes.elementary import elementwise

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals

HAM, SPAM = CLASSES.index("ham"), CLASSES.index("spam")


@dataclass(frozen=True, slots=True)
class Lidstone:
    """Smoothing that adds ``alpha`` occurrences of each token to each class; with 1 it is Laplace's rule."""

    alpha: float = 0.12

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha must be a number above 0: {self.alpha}")


@dataclass(frozen=True, slots=True)
class MEstimate:
    """Smoothing that adds ``m`` occurrences in all to each class.

    They are distributed over the tokens in proportion to the counts of all classes together.
    """

    m: float

    def __post_init__(self) -> None:
        if not 0 < self.m < math.inf:
            raise ValueError(f"m must be a number above 0: {self.m}")


Smoothing: TypeAlias = Lidstone | MEstimate


@dataclass(frozen=True, slots=True)
class MultinomialOptions:
    """The ``smoothing``, and whether a class is estimated from its ``complement``, all the other classes."""

    smoothing: Smoothing = Lidstone()
    complement: bool = False


def token_log_probabilities(
    counts: NDArray[np.int64],
    totals: Totals,
    options: MultinomialOptions = MultinomialOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Return ln P(token | class) in nats, shape (tokens, classes); 0 for a token that was never seen.

    ``unit`` is the count of one occurrence.

    Here n is the count of the token in the class, N the sum of all counts of the class and V the size of the
    vocabulary:

    - Lidstone: (n + alpha) / (N + alpha V), in the multinomial model of McCallum and Nigam, "A comparison of event
      models for naive Bayes text classification" (1998), where alpha is 1.
    - m-estimate: (n + m p) / (N + m) (Mitchell, "Machine Learning", 1997, 6.9.1), where p is the share of the
      token in all tokens, all classes together. With p = 1/V this would be Lidstone's rule with alpha = m/V: every
      token would be drawn towards the average token, and more strongly in a small class, so that rare tokens would
      seem to speak for that class. Because each token is drawn towards its own share, a token that is equally
      frequent in both classes says nothing, however different the sizes of the classes are.

    The rows of the complement are -ln P(token | all the other classes). The other classes have more tokens to
    estimate from, and their numbers differ less (Rennie et al., "Tackling the poor assumptions of naive Bayes text
    classifiers", 2003, 3.1). Of two classes each is the complement of the other, and the difference of the columns
    is the same as without ``complement``.
    """
    positive_counts = np.maximum(counts, 0)
    everywhere: NDArray[np.int64] = positive_counts.sum(axis=1)
    sums = np.maximum(np.array(totals.tokens), 0)
    token_pseudo_counts, class_pseudo_count = _pseudo_counts(
        everywhere, sums, totals.vocabulary_size, options.smoothing, unit
    )
    if options.complement:
        positive_counts, sums = everywhere[:, np.newaxis] - positive_counts, sums.sum() - sums
    rows = elementwise(math.log, (positive_counts + token_pseudo_counts) / (sums + class_pseudo_count))
    if options.complement:
        rows = -rows
    rows[everywhere == 0] = 0.0
    return rows


def token_log_ratios(
    counts: NDArray[np.int64], totals: Totals, smoothing: float, unit: float = WEIGHT_ONE
) -> NDArray[np.float64]:
    """Return ln P(token | spam) - ln P(token | ham) in nats, shape (tokens,); 0 for a token never seen.

    This is the difference of the two columns of ``token_log_probabilities`` with Lidstone's alpha ``smoothing``.
    It is computed here at once, with one logarithm per token instead of two, because every check does it.

    Every implementation computes exactly this, in double precision and in this order, where ``log`` is that of the
    C library, a negative number is read as 0, and alpha is ``smoothing``:

    - h = ham / unit + alpha and s = spam / unit + alpha, of the counts of the token;
    - H and S = tokens / unit + alpha * max(vocabulary, 1), of the totals of ham and of spam;
    - the ratio is log(s / h) + log(H / S), and 0 where both counts are 0.
    """
    seen = np.flatnonzero(np.maximum(counts[:, HAM], counts[:, SPAM]) > 0)
    smoothed = np.maximum(counts[seen], 0) / unit
    smoothed += smoothing
    pseudo = smoothing * max(totals.vocabulary_size, 1)
    ham, spam = (max(totals.tokens[column], 0) / unit + pseudo for column in (HAM, SPAM))
    ratios = np.zeros(len(counts))
    ratios[seen] = elementwise(math.log, smoothed[:, SPAM] / smoothed[:, HAM]) + math.log(ham / spam)
    return ratios


def _pseudo_counts(
    everywhere: NDArray[np.int64], sums: NDArray[np.int64], vocabulary: int, smoothing: Smoothing, unit: float
) -> tuple[float | NDArray[np.float64], float]:
    """Return what is added to the count of each token, and to the sum of each class (both fixed point)."""
    if isinstance(smoothing, Lidstone):
        alpha = smoothing.alpha * unit
        return alpha, alpha * max(vocabulary, 1)
    m = smoothing.m * unit
    # At least one unit, so that the logarithm is defined for tokens that were never seen as well.
    shares = np.maximum(everywhere, 1) / max(int(sums.sum()), 1)
    return m * shares[:, np.newaxis], m
