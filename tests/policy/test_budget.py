"""A budget of false positives: what can be promised, and by which threshold."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.budget import (
    PROMISE_DELTA,
    BudgetPromise,
    allowed_false_positives,
    binomial_cumulative,
    budget_promise,
    budget_promises,
    ham_needed,
)
from nbstream.policy.first_scores import FirstScore, FirstScoreWindow


def window(
    probabilities: list[float], *, rate: float = 0.0, called_spam: int = 0, followed: int = 0
) -> FirstScoreWindow:
    """Ham in the order of time, the last ``seen`` under a promise of ``rate``, ``called`` of them called spam."""
    promise = FirstScoreWindow()
    for index, probability in enumerate(probabilities):
        left = len(probabilities) - index
        budgets = ((rate, left <= called_spam),) if left <= followed else ()
        promise.add(FirstScore(float(index), f"m{index}", probability, budgets).pack())
    return promise


def exact(n: int, rate: float, last: int) -> float:
    return math.fsum(math.comb(n, j) * rate**j * (1 - rate) ** (n - j) for j in range(last + 1))


@given(st.integers(1, 300), st.floats(0.001, 0.5), st.data())
def test_the_binomial_tail_is_that_of_the_formula(n: int, rate: float, data: st.DataObject) -> None:
    last = data.draw(st.integers(0, n))

    assert binomial_cumulative(n, rate, last)[-1] == pytest.approx(exact(n, rate, last), rel=1e-9)


@given(st.integers(1, 400), st.floats(0.001, 0.5))
def test_as_many_ham_may_lie_above_as_the_tail_allows(n: int, rate: float) -> None:
    j = allowed_false_positives(n, rate)

    assert j == -1 or exact(n, rate, j) <= PROMISE_DELTA * (1 + 1e-9)
    assert exact(n, rate, j + 1) > PROMISE_DELTA * (1 - 1e-9)


@pytest.mark.parametrize(("rate", "needed"), [(0.001, 2995), (0.005, 598), (0.01, 299), (0.0001, 29956), (0.5, 5)])
def test_the_least_number_of_ham_is_the_one_of_the_formula(rate: float, needed: int) -> None:
    assert ham_needed(rate) == needed
    assert allowed_false_positives(needed, rate) == 0
    assert allowed_false_positives(needed - 1, rate) == -1


def test_with_too_little_ham_nothing_is_promised_and_the_missing_ham_is_named() -> None:
    promise = budget_promise(window([0.01] * 10), 0.001)

    assert promise == BudgetPromise(0.001, None, 2985)
    assert not promise.is_promised
    assert str(promise) == "needs 2,985 more ham to promise 0.1 %"


def test_the_first_threshold_is_above_all_ham() -> None:
    promise = budget_promise(window([index / 1000 for index in range(299)]), 0.01)

    assert promise.threshold == math.nextafter(0.298, 1)
    assert promise.is_promised
    assert str(promise) == "promised 1 %"


@given(st.lists(st.floats(0, 0.49), min_size=60, max_size=120), st.randoms(use_true_random=False))
def test_no_more_ham_is_above_the_threshold_than_allowed_in_whatever_order_it_came(
    probabilities: list[float], chance: random.Random
) -> None:
    promise = budget_promise(window(probabilities), 0.05)
    assert promise.threshold is not None
    chance.shuffle(probabilities)

    assert budget_promise(window(probabilities), 0.05) == promise
    assert sum(probability >= promise.threshold for probability in probabilities) <= allowed_false_positives(
        len(probabilities), 0.05
    )


def test_credit_lowers_the_threshold_and_an_overdrawn_budget_raises_it() -> None:
    probabilities = [index / 2000 for index in range(1000)]

    def threshold(called_spam: int, followed: int) -> float:
        promise = budget_promise(
            window(probabilities, rate=0.01, called_spam=called_spam, followed=followed), 0.01
        ).threshold
        assert promise is not None
        return promise

    none, saved, overdrawn = threshold(0, 0), threshold(0, 800), threshold(30, 800)
    assert saved < none < overdrawn
    assert overdrawn == math.nextafter(probabilities[-1], 1)


def test_the_credit_of_a_large_archive_is_bounded() -> None:
    probabilities = [index / 20_000 for index in range(10_000)]

    def threshold(called_spam: int, followed: int = 10_000) -> float:
        promise = budget_promise(
            window(probabilities, rate=0.01, called_spam=called_spam, followed=followed), 0.01
        ).threshold
        assert promise is not None
        return promise

    assert threshold(0) == threshold(4) < threshold(6) < threshold(0, followed=0) < threshold(12)


def test_the_credit_of_one_rate_is_not_that_of_another() -> None:
    probabilities = [index / 2000 for index in range(1000)]

    assert budget_promise(window(probabilities, rate=0.02, followed=900), 0.01) == budget_promise(
        window(probabilities), 0.01
    )


def test_a_sample_of_errors_promises_nothing_and_keeps_the_former_threshold() -> None:
    before = [index / 2000 for index in range(400)]
    fair, biased = budget_promise(window(before), 0.01), budget_promise(window([*before, *[0.97] * 100]), 0.01)

    assert biased.is_biased
    assert not biased.is_promised
    assert str(biased) == "biased sample, 1 % cannot be promised"
    # The last errors before it is noticed still count: 40 of the last 200.
    assert biased.threshold is not None
    assert fair.threshold is not None
    assert biased.threshold >= fair.threshold


def test_a_sample_that_was_biased_from_the_start_has_no_threshold() -> None:
    assert budget_promise(window([0.97] * 400), 0.01) == BudgetPromise(0.01, None, is_biased=True)


def test_a_few_ham_on_the_wrong_side_are_no_bias() -> None:
    assert not budget_promise(window([0.97] * 19), 0.01).is_biased


def test_the_promise_is_kept_for_ham_that_comes_like_the_ham_seen() -> None:
    """The true rate is above what was promised in no more than one of twenty draws, plus what chance allows."""
    chance, broken, draws = random.Random(7), 0, 400
    for _ in range(draws):
        promise = budget_promise(window([chance.random() ** 4 for _ in range(400)]), 0.02)
        assert promise.threshold is not None
        true_rate = 1 - promise.threshold**0.25
        broken += true_rate > 0.02
    assert binomial_cumulative(draws, PROMISE_DELTA, draws - 1)[max(0, broken - 1)] < 0.999


def test_no_credit_allows_for_more_than_three_times_the_rate() -> None:
    probabilities = [index / 20_000 for index in range(10_000)]

    promise = budget_promise(window(probabilities, rate=0.01, followed=10_000), 0.01)

    assert promise.threshold is not None
    assert sum(probability >= promise.threshold for probability in probabilities) == allowed_false_positives(
        10_000, 0.03
    )


@pytest.mark.parametrize("last", [0.1, 0.97], ids=["fair", "biased"])
def test_several_rates_together_have_the_promises_of_each_alone(last: float) -> None:
    ham = window([*(index / 2000 for index in range(1000)), *[last] * 200])
    rates = (0.05, 0.01, 0.001)

    promises = budget_promises(ham, rates)

    assert promises == {rate: budget_promise(ham, rate) for rate in rates}
    assert {promise.is_biased for promise in promises.values()} == {last > 0.5}
