"""The prior: how probable each class of a message is before any of its features is read."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


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
