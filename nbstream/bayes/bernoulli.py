"""The Bernoulli event model: which tokens of a vocabulary a message holds, and which it does not.

Rules: pure; a token's count is the weight of the messages that hold it (fixed point): a message adds its weight
once to each of its distinct tokens. The vocabulary is the tokens that enough messages hold, all classes together.
While changes are on their way a negative count reads as 0, and one above the weight of all messages as that.

The score of class c is its prior, plus ``absence_log_probabilities`` of c, plus the rows of ``presence_log_odds``
of the tokens that the message holds: the sum over the whole vocabulary as if the message were empty, put right
where it is not.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.counts import WEIGHT_ONE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class BernoulliOptions:
    """``alpha``: how many messages with a token, and as many without it, each class is given.

    ``min_messages``: how many of full weight must hold a token of the vocabulary.
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
    params: BernoulliOptions = BernoulliOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Per token and class ln P(present | class) - ln P(absent | class), in nats; shape (tokens, classes).

    P(present | class) = (df + alpha) / (n + 2 alpha), with df the weight of the class's messages that hold the
    token and n that of all its messages, ``weights`` (fixed point): the multi-variate Bernoulli model of McCallum
    and Nigam, "A comparison of event models for naive Bayes text classification" (1998), whose alpha is 1. A token
    outside the vocabulary is 0 in all classes. ``unit`` is the weight of one message.
    """
    present, absent, _ = _smoothed_weights(counts, weights, params, unit)
    rows: NDArray[np.float64] = np.log(present / absent)
    rows[~_in_vocabulary(counts, params, unit)] = 0.0
    return rows


def absence_log_probabilities(
    counts: NDArray[np.int64],
    weights: Sequence[int],
    params: BernoulliOptions = BernoulliOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Per class the sum of ln P(absent | class) over the vocabulary in ``counts``, in nats; shape (classes,).

    ``counts`` are those of all tokens there are, in any order: the sum is exact before it is rounded.
    """
    _, absent, all_messages = _smoothed_weights(
        counts[_in_vocabulary(counts, params, unit)], weights, params, unit
    )
    return np.array([math.fsum(column) for column in np.log(absent / all_messages).T.tolist()])


def _in_vocabulary(counts: NDArray[np.int64], params: BernoulliOptions, unit: float) -> NDArray[np.bool_]:
    held: NDArray[np.int64] = np.maximum(counts, 0).sum(axis=1)
    return held >= params.min_messages * unit


def _smoothed_weights(
    counts: NDArray[np.int64], weights: Sequence[int], params: BernoulliOptions, unit: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The weights of messages with each token, without it, and of all: smoothed, by class, and above 0."""
    alpha = params.alpha * unit
    messages = np.maximum(np.array(weights), 0)
    holding = np.minimum(np.maximum(counts, 0), messages)
    return holding + alpha, messages - holding + alpha, messages + 2 * alpha
