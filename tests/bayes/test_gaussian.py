import math
import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.naive_bayes import GaussianNB

from nbstream.bayes import priors
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.gaussian import GaussianOptions, moments, number_log_densities

EAGER = GaussianOptions(variance_floor=1.0, min_messages=0.001)
NUMBERS = st.lists(st.tuples(st.integers(-1000, 1000), st.integers(0, 1), st.integers(1, WEIGHT_ONE)), max_size=20)


def sums_of(learned: Iterable[tuple[int, int, int]], classes: int) -> NDArray[np.int64]:
    """The sums of one number after learning it with its class and weight; shape (1, 3, classes)."""
    sums = np.zeros((1, 3, classes), dtype=np.int64)
    for number, label, weight in learned:
        sums[0, :, label] += moments(number, weight)
    return sums


def numbers_of(classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Three numbers of each of 200 messages, on scales of their own, and the messages' classes."""
    generator = np.random.default_rng(classes)
    labels = generator.integers(0, classes, 200)
    means, widths = generator.uniform(0, 1000, (classes, 3)), generator.uniform(2, 200, (classes, 3))
    return generator.normal(means[labels], widths[labels]).round().astype(np.int64), labels


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("var_smoothing", [1e-9, 1e-3])
@pytest.mark.parametrize("weighted", [False, True])
def test_scores_are_those_of_scikit_learns_gaussian_model(
    classes: int, var_smoothing: float, weighted: bool
) -> None:
    numbers, labels = numbers_of(classes)
    weights = (
        np.random.default_rng(0).integers(1, WEIGHT_ONE, len(labels)) if weighted else np.full(200, WEIGHT_ONE)
    )
    theirs = GaussianNB(var_smoothing=var_smoothing).fit(numbers, labels, weights / WEIGHT_ONE)
    options = GaussianOptions(variance_floor=var_smoothing * numbers.var(axis=0).max(), min_messages=1.0)

    of_numbers = [zip(column, labels, weights, strict=True) for column in numbers.T]
    sums = np.concatenate([sums_of(learned, classes) for learned in of_numbers])
    prior = priors.log_priors(sums[0, 0].tolist(), priors.PriorOptions(alpha=0.0))
    scores = [prior + number_log_densities(row, sums, options).sum(axis=0) for row in numbers.tolist()]

    np.testing.assert_allclose(scores, theirs.predict_joint_log_proba(numbers), rtol=1e-9, atol=1e-9)


def test_the_density_follows_the_formula() -> None:
    sums = sums_of([(10, 0, 1000), (20, 0, 1000), (30, 1, 500), (40, 1, 1500)], classes=2)
    mean, variance = 37.5, (0.25 * 7.5**2 + 0.75 * 2.5**2) + 4.0
    expected = math.exp(-((33 - mean) ** 2) / (2 * variance)) / math.sqrt(2 * math.pi * variance)
    row = number_log_densities([33], sums, GaussianOptions(variance_floor=4.0, min_messages=2.0))[0]
    assert math.exp(row[1]) == pytest.approx(expected)


@given(NUMBERS, st.integers(-1000, 1000), st.integers(-(10**6), 10**6))
def test_numbers_far_from_zero_lose_nothing(learned: list[tuple[int, int, int]], number: int, offset: int) -> None:
    learned = [*learned, (3, 0, WEIGHT_ONE), (3, 1, WEIGHT_ONE)]
    far = [(number + offset, label, weight) for number, label, weight in learned]
    expected = number_log_densities([number], sums_of(learned, 2), EAGER)
    assert number_log_densities([number + offset], sums_of(far, 2), EAGER).tolist() == expected.tolist()


@given(NUMBERS, st.integers(-1000, 1000), st.randoms(use_true_random=False))
def test_the_order_of_learning_makes_no_difference(
    learned: list[tuple[int, int, int]], number: int, generator: random.Random
) -> None:
    expected = number_log_densities([number], sums_of(learned, 2), EAGER)
    generator.shuffle(learned)
    assert number_log_densities([number], sums_of(learned, 2), EAGER).tolist() == expected.tolist()


@given(NUMBERS, st.integers(-1000, 1000), st.integers(-1000, 1000), st.integers(1, WEIGHT_ONE))
def test_what_is_learned_and_taken_back_leaves_no_trace(
    learned: list[tuple[int, int, int]], number: int, other: int, weight: int
) -> None:
    sums = sums_of(learned, 2)
    expected = number_log_densities([number], sums, EAGER)
    sums[0, :, 1] += moments(other, weight)
    sums[0, :, 1] -= moments(other, weight)
    assert number_log_densities([number], sums, EAGER).tolist() == expected.tolist()


def test_a_number_says_nothing_while_any_class_has_too_few() -> None:
    learned = [(n, label, WEIGHT_ONE) for n in range(10) for label in range(2)]
    assert number_log_densities([5], sums_of(learned, 2)).all()
    assert not number_log_densities([5], sums_of(learned[:-1], 2)).any()
    assert not number_log_densities([5], sums_of(learned, 3)).any()


def test_messages_of_little_weight_are_few() -> None:
    learned = [(n, label, WEIGHT_ONE // 2) for n in range(19) for label in range(2)]
    assert not number_log_densities([5], sums_of(learned, 2)).any()
    assert number_log_densities([5], sums_of([*learned, *learned[:2]], 2)).all()


def test_equal_numbers_have_the_width_of_the_floor() -> None:
    learned = [(7, label, WEIGHT_ONE) for label in range(2)]
    row = number_log_densities([7], sums_of(learned, 2), EAGER)[0]
    assert np.exp(row) == pytest.approx(1 / math.sqrt(2 * math.pi))


def test_each_number_has_a_row_of_its_own() -> None:
    sums = np.concatenate([sums_of([(n, label, WEIGHT_ONE) for label in range(2)], 2) for n in (5, 900)])
    rows = number_log_densities([5, 900], sums, EAGER)
    assert rows.tolist() == [
        *number_log_densities([5], sums[:1], EAGER).tolist(),
        *number_log_densities([900], sums[1:], EAGER).tolist(),
    ]
    assert number_log_densities([], sums[:0]).shape == (0, 2)


@given(st.lists(st.integers(-(2**53), 2**53), min_size=6, max_size=6))
def test_sums_that_do_not_fit_together_have_finite_densities(sums: list[int]) -> None:
    assert np.isfinite(number_log_densities([500], np.array(sums).reshape(1, 3, 2), EAGER)).all()


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_options_that_are_no_number_above_zero_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="variance_floor"):
        GaussianOptions(variance_floor=value)
    with pytest.raises(ValueError, match="min_messages"):
        GaussianOptions(min_messages=value)
