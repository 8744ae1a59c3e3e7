import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.naive_bayes import CategoricalNB

from nbstream.bayes import priors
from nbstream.bayes.categorical import CategoricalOptions, value_log_probabilities
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts

SIZES = (2, 1, 3)
VALUES = [(attribute, value) for attribute, size in enumerate(SIZES) for value in range(size)]
TOKENS = [b"%d=%d" % attribute_value for attribute_value in VALUES]
COUNTS = st.lists(
    st.lists(st.integers(-5000, 100_000), min_size=3, max_size=3), min_size=len(VALUES), max_size=len(VALUES)
)


def counts_of(
    message_values_taken: NDArray[np.int64], labels: NDArray[np.int64], sizes: tuple[int, ...]
) -> NDArray[np.int64]:
    """The counts of all values after learning messages, each a row of one value for each attribute."""
    counts = ClassCounts(classes=int(labels.max()) + 1)
    for values, label in zip(message_values_taken.tolist(), labels.tolist(), strict=True):
        counts.add([b"%d=%d" % attribute_value for attribute_value in enumerate(values)], label, WEIGHT_ONE)
    return counts.look_up([b"%d=%d" % (i, value) for i, size in enumerate(sizes) for value in range(size)])


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_scores_are_those_of_scikit_learns_categorical_model(classes: int, alpha: float) -> None:
    generator, sizes = np.random.default_rng(classes), (2, 5, 9, 1)
    labels = generator.integers(0, classes, 150)
    message_values_taken = (generator.random((150, len(sizes))) ** (labels[:, np.newaxis] + 1) * sizes).astype(int)
    theirs = CategoricalNB(alpha=alpha, min_categories=sizes).fit(message_values_taken, labels)

    rows = value_log_probabilities(
        counts_of(message_values_taken, labels, sizes), sizes, CategoricalOptions(alpha)
    )
    prior = priors.log_priors(np.bincount(labels).tolist(), priors.PriorOptions(alpha=0.0))
    row_numbers = np.cumsum((0, *sizes[:-1])) + message_values_taken

    expected = theirs.predict_joint_log_proba(message_values_taken)
    np.testing.assert_allclose(prior + rows[row_numbers].sum(axis=1), expected, rtol=0, atol=1e-9)


def test_the_probability_follows_the_formula() -> None:
    counts = np.array([[3000, 0], [500, 2000], [0, 0], [9000, 9000]])
    rows = np.exp(value_log_probabilities(counts, (3, 1), CategoricalOptions(alpha=0.5)))
    assert rows[:, 0].tolist() == pytest.approx([3.5 / 5, 1 / 5, 0.5 / 5, 1])
    assert rows[:, 1].tolist() == pytest.approx([0.5 / 3.5, 2.5 / 3.5, 0.5 / 3.5, 1])


@given(COUNTS, st.floats(0.001, 100.0))
def test_the_probabilities_of_an_attributes_values_sum_to_one(rows: list[list[int]], alpha: float) -> None:
    probabilities = np.exp(value_log_probabilities(np.array(rows), SIZES, CategoricalOptions(alpha)))
    for attribute_rows in np.split(probabilities, np.cumsum(SIZES)[:-1]):
        assert attribute_rows.sum(axis=0).tolist() == pytest.approx([1.0] * 3)


@given(COUNTS)
def test_a_negative_count_reads_as_none(rows: list[list[int]]) -> None:
    counts = np.array(rows)
    expected = value_log_probabilities(np.maximum(counts, 0), SIZES)
    assert value_log_probabilities(counts, SIZES).tolist() == expected.tolist()


@given(
    COUNTS, st.tuples(*(st.integers(0, size - 1) for size in SIZES)), st.integers(0, 2), st.integers(0, WEIGHT_ONE)
)
def test_what_is_learned_and_taken_back_leaves_no_trace(
    rows: list[list[int]], values_taken: tuple[int, ...], label: int, weight: int
) -> None:
    counts = ClassCounts(classes=3)
    counts.set_counts(TOKENS, np.array(rows))
    expected = value_log_probabilities(counts.look_up(TOKENS), SIZES)
    values = [b"%d=%d" % attribute_value for attribute_value in enumerate(values_taken)]
    counts.add(values, label, weight)
    counts.subtract(values, label, weight)
    assert value_log_probabilities(counts.look_up(TOKENS), SIZES).tolist() == expected.tolist()


def test_an_attribute_never_seen_says_nothing() -> None:
    rows = value_log_probabilities(np.zeros((3, 4), dtype=np.int64), (3,))
    assert np.exp(rows) == pytest.approx(np.full((3, 4), 1 / 3))


def test_no_attributes_have_no_rows() -> None:
    assert value_log_probabilities(np.zeros((0, 2), dtype=np.int64), ()).shape == (0, 2)


@pytest.mark.parametrize("sizes", [(), (1, 1), (4,), (3, 0), (4, -1)])
def test_sizes_that_do_not_fit_the_counts_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="3 values"):
        value_log_probabilities(np.zeros((3, 2), dtype=np.int64), sizes)


@pytest.mark.parametrize("alpha", [0.0, -1.0, math.inf, math.nan])
def test_an_alpha_that_is_no_number_above_zero_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        CategoricalOptions(alpha)
