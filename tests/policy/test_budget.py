"""A budget of false positives: what is guaranteed, by which threshold, and that the bound is kept."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nbstream.policy.thresholds import (
    GUARANTEE_DELTA,
    BudgetGuarantee,
    PrequentialScore,
    ScoreWindow,
    allowed_false_positives,
    binomial_cumulative,
    budget_guarantees,
    ham_needed,
)


def window(probabilities: Iterable[float]) -> ScoreWindow:
    """Ham in the order of time."""
    scores = ScoreWindow()
    for index, probability in enumerate(probabilities):
        scores.add(PrequentialScore(float(index), f"m{index}", probability).pack())
    return scores


def guarantee(probabilities: Iterable[float], rate: float) -> BudgetGuarantee:
    return budget_guarantees(window(probabilities), (rate,))[rate]


def threshold(probabilities: Iterable[float], rate: float) -> float:
    found = guarantee(probabilities, rate).threshold
    assert found is not None
    return found


def exact(n: int, rate: float, last: int) -> float:
    return math.fsum(math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(last + 1))


@given(st.integers(1, 300), st.floats(0.001, 0.5), st.data())
def test_the_binomial_tail_is_that_of_the_formula(n: int, rate: float, data: st.DataObject) -> None:
    last = data.draw(st.integers(0, n))

    assert binomial_cumulative(n, rate, last)[-1] == pytest.approx(exact(n, rate, last), rel=1e-9)


@given(st.integers(1, 400), st.floats(0.001, 0.5))
def test_as_many_ham_may_lie_above_as_the_tail_allows(n: int, rate: float) -> None:
    j = allowed_false_positives(n, rate)

    assert j == -1 or exact(n, rate, j) <= GUARANTEE_DELTA * (1 + 1e-9)
    assert exact(n, rate, j + 1) > GUARANTEE_DELTA * (1 - 1e-9)


@pytest.mark.parametrize(("rate", "needed"), [(0.001, 2995), (0.005, 598), (0.01, 299), (0.0001, 29956), (0.5, 5)])
def test_the_least_number_of_ham_is_the_one_of_the_formula(rate: float, needed: int) -> None:
    assert ham_needed(rate) == needed
    assert allowed_false_positives(needed, rate) == 0
    assert allowed_false_positives(needed - 1, rate) == -1


def test_with_too_little_ham_nothing_is_guaranteed_and_the_missing_ham_is_named() -> None:
    found = guarantee([0.01] * 10, 0.001)

    assert found == BudgetGuarantee(0.001, None, 2985)
    assert str(found) == "needs 2,985 more ham to guarantee 0.1 %"


@given(st.lists(st.floats(0, 0.49), min_size=60, max_size=120), st.randoms(use_true_random=False))
def test_no_more_ham_reaches_the_threshold_than_allowed_in_whatever_order_it_came(
    probabilities: list[float], chance: random.Random
) -> None:
    lowest = threshold(probabilities, 0.05)
    chance.shuffle(probabilities)

    assert threshold(probabilities, 0.05) == lowest
    allowed = allowed_false_positives(len(probabilities), 0.05)
    assert sum(probability >= lowest for probability in probabilities) <= allowed
    below = math.nextafter(lowest, 0)
    assert sum(probability >= below for probability in probabilities) > allowed


@settings(max_examples=15, deadline=None)
@given(st.integers(60, 90), st.floats(0.05, 0.5), st.floats(0, 1))
def test_the_bound_is_kept_for_exchangeable_scores_of_any_distribution(n: int, rate: float, above: float) -> None:
    """Computed, not simulated: let 0.3 be the highest score that more than ``rate`` of all ham reaches.

    A guarantee does not hold where its threshold is no higher. Of n ham a binomial number reaches that score.
    """
    share = rate + above * (1 - rate)
    broken = math.fsum(
        math.comb(n, reach) * share**reach * (1 - share) ** (n - reach)
        for reach in range(n + 1)
        if threshold([0.3] * reach + [0.1] * (n - reach), rate) <= 0.3
    )

    assert broken <= GUARANTEE_DELTA * (1 + 1e-9)


def test_the_true_rate_is_above_the_guarantee_in_no_more_than_delta_of_all_draws() -> None:
    chance, broken, draws = random.Random(7), 0, 400
    for _ in range(draws):
        true_rate = 1 - threshold([chance.random() ** 8 for _ in range(400)], 0.02) ** (1 / 8)
        broken += true_rate > 0.02

    # 5 % of 400 are 20; the binomial probability of more than 33 is below 0.2 %.
    assert 0 < broken <= 33


def test_where_only_errors_are_labelled_nothing_is_guaranteed() -> None:
    """Each lost ham is labelled and no other one: without the check the rate of the labelled ham would hold."""
    chance = random.Random(3)
    lost = [probability for probability in (chance.random() for _ in range(20_000)) if probability >= 0.5]

    found = guarantee(lost, 0.01)

    assert found == BudgetGuarantee(0.01, None)
    assert str(found) == "only errors are labelled, 1 % is not guaranteed"


def test_several_rates_together_have_the_guarantees_of_each_alone() -> None:
    ham = [index / 2000 for index in range(1000)]

    found = budget_guarantees(window(ham), (0.05, 0.01, 0.001))

    assert found == {rate: guarantee(ham, rate) for rate in (0.05, 0.01, 0.001)}
    assert budget_guarantees(window(ham), ()) == {}
