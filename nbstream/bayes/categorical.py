"""The categorical event model: which of its values each attribute of a message takes.

Rules: pure; the values of an attribute are a closed list, and a message takes one of them for each attribute that
it has. A negative count, which can be seen while changes are on their way, is read as 0.
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
class CategoricalOptions:
    """The smoothing: ``alpha`` is how many messages with each value of an attribute are added to each class."""

    alpha: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha < math.inf:
            raise ValueError(f"alpha must be a number above 0: {self.alpha}")


def value_log_probabilities(
    counts: NDArray[np.int64],
    sizes: Sequence[int],
    options: CategoricalOptions = CategoricalOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Return ln P(value | class) in nats, shape (values, classes).

    ``counts`` are those of all values of all attributes: the first ``sizes[0]`` rows are the values of the first
    attribute, and so on; ``unit`` is the count of one message. ``ValueError`` is raised where ``counts`` and
    ``sizes`` do not fit together.

    P(value | class) = (n_v + alpha) / (n + alpha K), where n_v is the count of the value in the class, n the sum
    over the values of the attribute and K their number. This is Mitchell's m-estimate for attributes ("Machine
    Learning", 1997, 6.9.1) with m = alpha K and p = 1/K. The probabilities of an attribute sum to 1 in each class,
    and are equal where none of its values was seen.
    """
    if min(sizes, default=1) < 1 or sum(sizes) != len(counts):
        raise ValueError(f"{len(counts)} values are not those of attributes of {list(sizes)} values")
    positive_counts, lengths = np.maximum(counts, 0), np.array(sizes, dtype=np.intp)
    sums = np.add.reduceat(positive_counts, np.cumsum(lengths) - lengths)  # of integers, so in any order
    smoothed = positive_counts / unit + options.alpha
    smoothed_sums = sums / unit + options.alpha * lengths[:, np.newaxis]
    return elementwise(math.log, smoothed / np.repeat(smoothed_sums, lengths, axis=0))
