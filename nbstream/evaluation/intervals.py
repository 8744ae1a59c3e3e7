"""Confidence intervals of rates: how far a rate that was counted may be from the one that will be met.

Rules: pure numpy, all for 95 %, two-sided, each for itself and not for a whole curve at once; what nothing was
counted of may be anything, so its interval is from 0 to 1. They take messages for independent; spam comes in
campaigns, so that of spam they are rather too narrow.

Wilson's score interval ("Probable inference", 1927): in closed form, never below 0 or above 1, and with a coverage
near the nominal one where none or few of many were counted (Brown, Cai, DasGupta, "Interval estimation for a
binomial proportion", 2001).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from nbstream.evaluation.measures import FloatArray

_Z = 1.959963984540054  # the normal distribution has 2.5 % beyond


def wilson_interval(counts: FloatArray, n: int) -> tuple[FloatArray, FloatArray]:
    """The lower and upper ends for ``counts`` of ``n`` messages each, as shares from 0 to 1."""
    if not n:
        return np.zeros_like(counts), np.ones_like(counts)
    middle = (counts + _Z**2 / 2) / (n + _Z**2)
    half = _Z / (n + _Z**2) * np.sqrt(counts * (n - counts) / n + _Z**2 / 4)
    # At 0 and at n the ends are 0 and 1; rounded they might be beyond.
    lower, upper = np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)
    return np.where(counts == 0, 0.0, lower), np.where(counts == n, 1.0, upper)


def sum_interval(
    one: tuple[FloatArray, FloatArray, FloatArray], other: tuple[FloatArray, FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    """The interval of the sum of two independent estimates, each with its own (estimate, lower, upper).

    Each side is the root of the sum of the squared distances there (Zou, Donner, "Construction of confidence
    limits about effect measures", 2008), so that with Wilson's ends it holds at rates near 0 too.
    """
    (a, a_low, a_high), (b, b_low, b_high) = one, other
    return a + b - np.hypot(a - a_low, b - b_low), a + b + np.hypot(a_high - a, b_high - b)
