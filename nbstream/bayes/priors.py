"""The prior: how probable each class of a message is before any of its features is read."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class PriorOptions:
    """The smoothing: ``alpha`` messages are added to each class; 0 gives the estimate of maximum likelihood."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be a number from 0 on: {self.alpha}")


def log_priors(messages: Sequence[int], options: PriorOptions = PriorOptions()) -> NDArray[np.float64]:
    """Return ln P(class) in nats, shape (classes,), from the number of ``messages`` learned in each class.

    P(class) = (n_c + alpha) / (n + alpha C), where n_c is the number of messages of the class, n that of all
    classes and C the number of classes. This is the mode of the posterior under a symmetric Dirichlet prior with
    the parameter alpha + 1 (Murphy, "Machine Learning: A Probabilistic Perspective", 2012, 3.4). With alpha 0 it
    is the share of the messages, and -inf for a class that has none. All classes are equal where neither messages
    nor alpha are above 0.
    """
    shares = [max(n, 0) + options.alpha for n in messages]
    total = sum(shares)
    if not total:
        return np.full(len(shares), -math.log(len(shares)))
    return np.array([math.log(share) - math.log(total) if share else -math.inf for share in shares])
