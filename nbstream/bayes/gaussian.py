"""The Gaussian event model: how near each number of a message is to the numbers of each class.

Rules: pure; of each number a class stores the sums of w, w x and w x^2 over its messages, where w is the
fixed-point weight and x the number, an integer. Mean and variance are computed from these sums in exact integers:
where the variance is small, the difference of two large floats would be nothing but rounding errors.
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
class GaussianOptions:
    """The bounds of the Gaussian model.

    ``variance_floor`` is added to every variance, in squared units of the number. A number says nothing while any
    class has it from fewer than ``min_messages`` messages of full weight.
    """

    variance_floor: float = 400.0
    min_messages: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.variance_floor < math.inf:
            raise ValueError(f"variance_floor must be a number above 0: {self.variance_floor}")
        if not 0 < self.min_messages < math.inf:
            raise ValueError(f"min_messages must be a number above 0: {self.min_messages}")


def moments(number: int, weight: int) -> tuple[int, int, int]:
    """Return what a message of this fixed-point weight adds to the sums of its class: w, w x and w x^2."""
    return weight, weight * number, weight * number**2


def number_log_densities(
    numbers: Sequence[int],
    sums: NDArray[np.int64],
    options: GaussianOptions = GaussianOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Return ln p(x | class) in nats, shape (numbers, classes).

    ``sums`` has the shape (numbers, 3, classes): for each number the three sums to which ``moments`` adds.
    ``unit`` is the weight of one message.

    p(x | class) is the normal density with the mean Sx / n and the variance (n Sxx - Sx^2) / n^2 of the class,
    where n is the sum of weights. These are the estimates of maximum likelihood (John and Langley, "Estimating
    continuous distributions in Bayesian classifiers", 1995). ``variance_floor`` is added to the variance, so that
    equal numbers have a width as well. scikit-learn's GaussianNB adds var_smoothing x the largest variance of any
    number in the same way; the results are the same where the two added terms are equal.

    A number that too few messages of some class had is 0 in all classes, and so says nothing.
    """
    rows = [
        _class_log_densities(x, number_sums.tolist(), options, unit)
        for x, number_sums in zip(numbers, sums, strict=True)
    ]
    return np.array(rows).reshape(len(numbers), sums.shape[-1])


def _class_log_densities(x: int, sums: list[list[int]], options: GaussianOptions, unit: float) -> list[float]:
    if min(sums[0]) < options.min_messages * unit:
        return [0.0] * len(sums[0])
    class_sums = zip(*sums, strict=True)
    return [_log_density(x, n, sx, sxx, options.variance_floor) for n, sx, sxx in class_sums]


def _log_density(x: int, n: int, sx: int, sxx: int, floor: float) -> float:
    """Return the logarithm of the normal density at ``x``, from sums with ``n`` above 0."""
    variance = max(n * sxx - sx * sx, 0) / (n * n) + floor  # below 0 only while changes are on their way
    deviation = (n * x - sx) / n
    return -0.5 * (math.log(math.tau * variance) + deviation * deviation / variance)
