"""The Bernoulli event model: which tokens of a vocabulary a message has, and which it lacks.

Rules: pure; the count of a token is the weight of the messages that have it (fixed point): a message adds its
weight once to each of its distinct tokens. The vocabulary is the tokens that enough messages have, all classes
together. While changes are on their way, a negative count is read as 0, and a count above the weight of all
messages as that weight.

The score of class c is the sum of its prior, of ``absence_log_probabilities`` of c, and of the rows of
``presence_log_odds`` of the tokens that the message has. That is the sum over the whole vocabulary for an empty
message, corrected for the tokens that are present.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.elementary import elementwise

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BernoulliOptions:
    """The smoothing and the vocabulary of the Bernoulli model.

    ``alpha`` is how many messages with each token, and how many without it, are added to each class.
    ``min_messages`` is how many messages of full weight must have a token for it to belong to the vocabulary.
    """

    alpha: float = 1.0
    min_messages: float = 5.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha must be a number above 0: {self.alpha}")
        if not 0 < self.min_messages < math.inf:
            raise ValueError(f"min_messages must be a number above 0: {self.min_messages}")


def presence_log_odds(
    counts: NDArray[np.int64],
    weights: Sequence[int],
    options: BernoulliOptions = BernoulliOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Return ln P(present | class) - ln P(absent | class) in nats, shape (tokens, classes).

    P(present | class) = (df + alpha) / (n + 2 alpha), where df is the weight of the messages of the class that
    have the token, and n the weight of all messages of the class, given by ``weights`` (fixed point). This is the
    multi-variate Bernoulli model of McCallum and Nigam, "A comparison of event models for naive Bayes text
    classification" (1998), whose alpha is 1. A token outside the vocabulary is 0 in all classes. ``unit`` is the
    weight of one message.
    """
    present, absent, _ = _smoothed_weights(counts, weights, options, unit)
    rows = elementwise(math.log, present / absent)
    rows[~_in_vocabulary(counts, options, unit)] = 0.0
    return rows


def absence_log_probabilities(
    counts: NDArray[np.int64],
    weights: Sequence[int],
    options: BernoulliOptions = BernoulliOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Return the sum of ln P(absent | class) over the vocabulary, in nats, shape (classes,).

    ``counts`` are those of all tokens of the model, in any order: the sum is exact before it is rounded.
    """
    _, absent, all_messages = _smoothed_weights(
        counts[_in_vocabulary(counts, options, unit)], weights, options, unit
    )
    return np.array([math.fsum(map(math.log, column)) for column in (absent / all_messages).T.tolist()])


def _in_vocabulary(counts: NDArray[np.int64], options: BernoulliOptions, unit: float) -> NDArray[np.bool_]:
    message_weights: NDArray[np.int64] = np.maximum(counts, 0).sum(axis=1)
    return message_weights >= options.min_messages * unit


def _smoothed_weights(
    counts: NDArray[np.int64], weights: Sequence[int], options: BernoulliOptions, unit: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return three smoothed weights per class, all above 0: messages with each token, without it, and all."""
    alpha = options.alpha * unit
    messages = np.maximum(np.array(weights), 0)
    with_token = np.minimum(np.maximum(counts, 0), messages)
    return with_token + alpha, messages - with_token + alpha, messages + 2 * alpha
