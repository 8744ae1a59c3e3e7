"""The intervals against published values, their defining equation, and their nominal coverage."""

from __future__ import annotations

import math
from dataclasses import astuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.evaluation.measures import IntervalEstimate

counted = st.integers(1, 30_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


def ends(count: int, n: int) -> tuple[float, float]:
    estimate = IntervalEstimate.of_share(count, n)
    return estimate.lower, estimate.upper


@pytest.mark.parametrize(
    ("count", "n", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_the_four_cases_of_newcombe(count: int, n: int, low: float, high: float) -> None:
    # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
    assert ends(count, n) == pytest.approx((low, high), abs=5e-5)


@given(counted)
def test_the_ends_are_the_rates_at_which_the_count_is_just_196_deviations_off(case: tuple[int, int]) -> None:
    count, n = case
    low, high = ends(count, n)

    assert 0 <= low <= count / n <= high <= 1
    for end in (low, high):
        if 0 < end < 1:
            deviations = abs(count / n - end) / math.sqrt(end * (1 - end) / n)
            assert deviations == pytest.approx(1.959964, rel=1e-5)
    assert (low == 0) == (count == 0)
    assert (high == 1) == (count == n)


@pytest.mark.parametrize("rate", [0.0005, 0.001, 0.005, 0.02, 0.3, 0.5])
def test_the_rate_lies_inside_about_95_times_in_100(rate: float) -> None:
    n = 8000
    low, high = np.array([ends(k, n) for k in range(n + 1)]).T
    chance = np.array(
        [
            math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1)
            + k * math.log(rate) + (n - k) * math.log1p(-rate)
            for k in range(n + 1)
        ]
    )  # fmt: skip

    inside = float(np.exp(chance)[(low <= rate) & (rate <= high)].sum())

    assert 0.925 < inside < 0.985


def test_without_messages_the_interval_is_from_0_to_1() -> None:
    assert ends(0, 0) == (0.0, 1.0)


def test_a_certain_summand_moves_the_interval_and_two_equal_ones_widen_it_by_a_root() -> None:
    rate, certain = IntervalEstimate(0.3, 0.2, 0.5), IntervalEstimate(0.1, 0.1, 0.1)

    moved, widened = rate + certain, rate + rate

    assert astuple(moved) == pytest.approx((0.4, 0.3, 0.6))
    assert astuple(widened) == pytest.approx((0.6, 0.6 - 0.1 * math.sqrt(2), 0.6 + 0.2 * math.sqrt(2)))
