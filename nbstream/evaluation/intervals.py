"""Confidence intervals of rates: how far a counted rate may be from the true one.

Rules: pure numpy. All intervals are two-sided, for 95 %, and each one holds for itself, not for a whole curve at
once. Without any message the interval is from 0 to 1, because the rate may be anything. The formulas assume that
messages are independent; spam comes in campaigns, therefore the intervals of spam are rather too narrow.

The interval is Wilson's score interval ("Probable inference", 1927). It has a closed form, is never below 0 or
above 1, and its coverage is near 95 % even if none or few of many messages were counted (Brown, Cai, DasGupta,
"Interval estimation for a binomial proportion", 2001).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nbstream.evaluation.measures import FloatArray

_Z = 1.959963984540054  # 2.5 % of the normal distribution lies above


@dataclass(frozen=True, slots=True)
class IntervalEstimate:
    """Estimates with the ends of their intervals, three arrays of one shape; nan is unknown."""

    value: FloatArray
    lower: FloatArray
    upper: FloatArray

    def scaled(self, factor: float | FloatArray) -> IntervalEstimate:
        """Return the estimates multiplied by ``factor``, which is not negative."""
        return IntervalEstimate(factor * self.value, factor * self.lower, factor * self.upper)

    def at_least(self, limit: float) -> IntervalEstimate:
        """Return the estimates with all values and ends below ``limit`` replaced by it."""
        return IntervalEstimate(
            np.maximum(self.value, limit), np.maximum(self.lower, limit), np.maximum(self.upper, limit)
        )


def wilson_interval(counts: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """Return the lower and the upper ends of the intervals of ``counts`` out of ``n``, as shares from 0 to 1."""
    if not n:
        return np.zeros_like(counts), np.ones_like(counts)
    middle = (counts + _Z**2 / 2) / (n + _Z**2)
    half_width = _Z / (n + _Z**2) * np.sqrt(counts * (n - counts) / n + _Z**2 / 4)
    # For counts of 0 and n the ends are exactly 0 and 1; the rounded formula might be outside of that.
    lower, upper = np.maximum(middle - half_width, 0.0), np.minimum(middle + half_width, 1.0)
    return np.where(counts == 0, 0.0, lower), np.where(counts == n, 1.0, upper)


def sum_estimate(a: IntervalEstimate, b: IntervalEstimate) -> IntervalEstimate:
    """Return the sum of two independent estimates, with its interval.

    The distance of each end is the root of the sum of the squared distances of the two ends on that side (Zou,
    Donner, "Construction of confidence limits about effect measures", 2008). With Wilson's ends this is valid at
    rates near 0, too.
    """
    total = a.value + b.value
    return IntervalEstimate(
        total,
        total - np.hypot(a.value - a.lower, b.value - b.lower),
        total + np.hypot(a.upper - a.value, b.upper - b.value),
    )
