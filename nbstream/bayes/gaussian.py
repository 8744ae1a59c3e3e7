"""The Gaussian event model: how near each number of a message lies to those of each class.

Rules: pure; of each number a class keeps the sums over its messages of w, w x and w x^2, w being the fixed-point
weight and x the number, an integer. Mean and variance come from these in exact integers: of a small variance the
difference of two large floats would leave nothing but rounding errors.
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
    """``variance_floor`` is added to every variance, in squared units of the number.

    ``min_messages``: a number says nothing while any class has it from fewer, of full weight.
    """

    variance_floor: float = 400.0
    min_messages: float = 10.0

    def __post_init__(self) -> None:
        if not 0 < self.variance_floor < math.inf:
            raise ValueError(f"variance_floor must be a number above 0: {self.variance_floor}")
        if not 0 < self.min_messages < math.inf:
            raise ValueError(f"min_messages must be a number above 0: {self.min_messages}")


def moments(number: int, weight: int) -> tuple[int, int, int]:
    """What a message of this fixed-point weight adds to the sums of its class: w, w x and w x^2."""
    return weight, weight * number, weight * number**2


def number_log_densities(
    numbers: Sequence[int],
    sums: NDArray[np.int64],
    params: GaussianOptions = GaussianOptions(),
    unit: float = WEIGHT_ONE,
) -> NDArray[np.float64]:
    """Per number and class ln p(x | class), in nats; shape (numbers, classes).

    ``sums`` has the shape (numbers, 3, classes): per number those that ``moments`` adds to. ``unit`` is
    the weight of one message.

    p(x | class) is the normal density of the class's mean and variance, (n Sxx - Sx^2) / n^2 with n the sum of
    weights, as maximum likelihood has it (John and Langley, "Estimating continuous distributions in Bayesian
    classifiers", 1995), plus the floor: equal numbers have a width, too. It is added as scikit-learn's GaussianNB
    adds var_smoothing x the largest variance of any number, and gives what that gives when the two are equal.

    A number that too few messages of some class had is 0 in all classes, and so says nothing.
    """
    rows = [_class_log_densities(x, each.tolist(), params, unit) for x, each in zip(numbers, sums, strict=True)]
    return np.array(rows).reshape(len(numbers), sums.shape[-1])


def _class_log_densities(x: int, sums: list[list[int]], params: GaussianOptions, unit: float) -> list[float]:
    if min(sums[0]) < params.min_messages * unit:
        return [0.0] * len(sums[0])
    of_classes = zip(*sums, strict=True)
    return [_log_density(x, n, sx, sxx, params.variance_floor) for n, sx, sxx in of_classes]


def _log_density(x: int, n: int, sx: int, sxx: int, floor: float) -> float:
    """The logarithm of the normal density at ``x``, from sums with ``n`` above 0."""
    variance = max(n * sxx - sx * sx, 0) / (n * n) + floor  # below 0 only while changes are on their way
    deviation = (n * x - sx) / n
    return -0.5 * (math.log(math.tau * variance) + deviation * deviation / variance)
