"""The prior: what is known of a message's class before it is looked at."""

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
    """``alpha``: the messages that each class is given on top of those it has; 0 is maximum likelihood."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 0 <= self.alpha < math.inf:
            raise ValueError(f"alpha must be a number from 0 on: {self.alpha}")


def log_priors(messages: Sequence[int], params: PriorOptions = PriorOptions()) -> NDArray[np.float64]:
    """Per class ln P(class), from the number of ``messages`` learned in each; shape (classes,).

    P(class) = (n_c + alpha) / (n + alpha C), with n_c the class's messages, n those of all classes and C the
    number of classes: the mode of the posterior under a symmetric Dirichlet prior of parameter alpha + 1
    (Murphy, "Machine Learning: A Probabilistic Perspective", 2012, 3.4). With alpha 0, the share of the messages,
    -inf for a class that has none. All classes are equal where there is nothing to go by.
    """
    shares = [max(n, 0) + params.alpha for n in messages]
    total = sum(shares)
    if not total:
        return np.full(len(shares), -math.log(len(shares)))
    return np.array([math.log(share) - math.log(total) if share else -math.inf for share in shares])
