"""The multinomial event model of the filter: the log-ratio of a token by its counts in ham and spam.

Rules: pure; a negative count, which can be seen while changes are on their way, is read as 0; a token that no
class has ever seen says nothing. The counts are of messages that have the token: this is the multinomial model
with Boolean attributes of Metsis et al., "Spam filtering with naive Bayes - which naive Bayes?" (2006). For any
number of classes and for occurrences see ``event_models.MultinomialNB``, which has the same formula.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals


# The prior: how probable each class of a message is before any of its features is read.


def log_priors(messages: Sequence[int], alpha: float = 1.0) -> NDArray[np.float64]:
    """Return ln P(class) in nats, shape (classes,), from the number of ``messages`` learned in each class.

    P(class) = (n_c + alpha) / (n + alpha C), where n_c is the number of messages of the class, n that of all
    classes and C the number of classes. This is the mode of the posterior under a symmetric Dirichlet prior with
    the parameter alpha + 1 (Murphy, "Machine Learning: A Probabilistic Perspective", 2012, 3.4). With alpha 0 it
    is the share of the messages, the estimate of maximum likelihood, and -inf for a class that has none. All
    classes are equal where neither messages nor alpha are above 0.
    """
    shares = [max(n, 0) + require_not_negative(alpha) for n in messages]
    total = sum(shares)
    if not total:
        return np.full(len(shares), -math.log(len(shares)))
    return np.array([math.log(share) - math.log(total) if share else -math.inf for share in shares])


def require_not_negative(alpha: float) -> float:
    """Return ``alpha`` if it can be added to counts, else raise ValueError."""
    if not 0 <= alpha < math.inf:
        raise ValueError(f"alpha must be a number from 0 on: {alpha}")
    return alpha


# The elementary functions of the C library, applied to each number of an array.
#
# Rules: pure. Every logarithm, exponential and hyperbolic tangent on which a score depends comes from here or from
# ``math``, which calls the C library. numpy has functions of its own, and which of them it uses depends on the
# processor: they differ in the last bit. What numpy computes here are single additions, multiplications and
# divisions, which IEEE 754 defines to the last bit; where numbers are added up, the order is stated, or the sum is
# ``math.fsum``, which is exact before it is rounded and has no order. So two implementations that call the same C
# library get the same bits.


def elementwise(function: Callable[[float], float], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``function`` of each of the ``values``, in an array of the same shape."""
    results = map(function, values.ravel().tolist())
    return np.fromiter(results, np.float64, values.size).reshape(values.shape)


HAM, SPAM = CLASSES.index("ham"), CLASSES.index("spam")

ALPHA = 0.12
"""The occurrences that Lidstone's smoothing adds to each token of each class.

It was chosen together with the lesson weights; see docs/experiments.md, "Lesson weights and clues on unseen mail".
"""


class TokenCounts(NamedTuple):
    """The counts of a message's tokens, as the memory of this process has them now.

    ``rows`` has the shape (tokens, classes), in the order of ``Tokens.all``.
    """

    rows: NDArray[np.int64]
    totals: Totals


def token_log_ratios(counts: NDArray[np.int64], totals: Totals, alpha: float = ALPHA) -> NDArray[np.float64]:
    """Return ln P(token | spam) - ln P(token | ham) in nats, shape (tokens,); 0 for a token never seen.

    P(token | class) = (n + alpha) / (N + alpha V), where n is the count of the token in the class, N the sum of
    all counts of the class and V the size of the vocabulary: the multinomial model of McCallum and Nigam, "A
    comparison of event models for naive Bayes text classification" (1998), where alpha is 1.

    Every implementation computes exactly this, in double precision and in this order, where ``log`` is that of the
    C library, and a negative number is read as 0; unit is ``WEIGHT_ONE``:

    - h = ham / unit + alpha and s = spam / unit + alpha, of the counts of the token;
    - H and S = tokens / unit + alpha * max(vocabulary, 1), of the totals of ham and of spam;
    - the ratio is log(s / h) + log(H / S), and 0 where both counts are 0.
    """
    seen = np.flatnonzero(np.maximum(counts[:, HAM], counts[:, SPAM]) > 0)
    smoothed = np.maximum(counts[seen], 0) / WEIGHT_ONE
    smoothed += alpha
    ham, spam = class_masses(totals, alpha)
    ratios = np.zeros(len(counts))
    ratios[seen] = elementwise(math.log, smoothed[:, SPAM] / smoothed[:, HAM]) + math.log(ham / spam)
    return ratios


def class_masses(totals: Totals, alpha: float) -> tuple[float, float]:
    """Return H and S of ``token_log_ratios``: the smoothed occurrences of all tokens in ham and in spam."""
    pseudo = alpha * max(totals.vocabulary_size, 1)
    ham, spam = (max(totals.token_weights[column], 0) / WEIGHT_ONE + pseudo for column in (HAM, SPAM))
    return ham, spam
