import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.naive_bayes import BernoulliNB

from nbstream.bayes import priors
from nbstream.bayes.bernoulli import BernoulliOptions, absence_log_probabilities, presence_log_odds
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts

TOKENS = [b"a", b"b", b"c", b"d", b"e"]
MESSAGES = st.lists(
    st.tuples(st.lists(st.sampled_from(TOKENS), unique=True), st.integers(0, 2), st.integers(0, WEIGHT_ONE)),
    min_size=1,
    max_size=12,
)
ROWS = st.lists(st.lists(st.integers(-9000, 90_000), min_size=3, max_size=3), max_size=40)
WEIGHTS = st.lists(st.integers(-9000, 90_000), min_size=3, max_size=3)
Learned = list[tuple[list[bytes], int, int]]


def table(rows: list[list[int]]) -> NDArray[np.int64]:
    return np.array(rows, dtype=np.int64).reshape(-1, 3)


def scores(messages: Learned) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """What each token says, and what their absence says, after learning the messages."""
    counts, weights = ClassCounts(classes=3), [0, 0, 0]
    for tokens, label, weight in messages:
        counts.add(tokens, label, weight)
        weights[label] += weight
    options = BernoulliOptions(min_messages=1.0)
    return presence_log_odds(counts.look_up(TOKENS), weights, options), absence_log_probabilities(
        counts.look_up(TOKENS), weights, options
    )


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_scores_are_those_of_scikit_learns_bernoulli_model(classes: int, alpha: float) -> None:
    generator = np.random.default_rng(classes)
    labels = generator.integers(0, classes, 200)
    present = generator.random((200, 60)) < generator.beta(0.3, 1.0, (classes, 60))[labels]
    counts = WEIGHT_ONE * np.array([present[labels == label].sum(axis=0) for label in range(classes)]).T
    messages = np.bincount(labels).tolist()
    options, weights = BernoulliOptions(alpha, min_messages=5.0), [n * WEIGHT_ONE for n in messages]
    vocabulary = present.sum(axis=0) >= 5
    assert 20 < vocabulary.sum() < 60
    theirs = BernoulliNB(alpha=alpha).fit(present[:, vocabulary], labels)

    ours = priors.log_priors(messages, priors.PriorOptions(alpha=0.0)) + absence_log_probabilities(
        counts, weights, options
    )
    ours = ours + present @ presence_log_odds(counts, weights, options)

    expected = theirs.predict_joint_log_proba(present[:, vocabulary])
    np.testing.assert_allclose(ours, expected, rtol=0, atol=1e-9)


def test_the_probability_follows_the_formula() -> None:
    rows = presence_log_odds(
        np.array([[3000, 500]]), [4000, 10_000], BernoulliOptions(alpha=1.0, min_messages=1.0)
    )
    present = [(3 + 1) / (4 + 2), (0.5 + 1) / (10 + 2)]
    assert rows[0].tolist() == pytest.approx([math.log(p / (1 - p)) for p in present])


def test_tokens_that_too_few_messages_hold_say_nothing_present_or_absent() -> None:
    counts, weights = np.array([[2999, 2000], [3000, 2000], [0, 0]]), [9000, 9000]
    assert presence_log_odds(counts, weights).any(axis=1).tolist() == [False, True, False]
    assert (
        absence_log_probabilities(counts, weights).tolist()
        == absence_log_probabilities(counts[1:2], weights).tolist()
    )


def test_the_absence_of_a_token_speaks_against_the_class_that_uses_it() -> None:
    ham, spam = absence_log_probabilities(np.array([[9000, 1000]]), [10_000, 10_000])
    assert math.exp(ham) == pytest.approx(2 / 12)
    assert math.exp(spam) == pytest.approx(10 / 12)


def test_without_a_vocabulary_nothing_is_absent() -> None:
    assert absence_log_probabilities(np.zeros((0, 2), dtype=np.int64), [0, 0]).tolist() == [0.0, 0.0]


@given(ROWS, WEIGHTS)
def test_any_counts_and_weights_have_finite_scores(rows: list[list[int]], weights: list[int]) -> None:
    options = BernoulliOptions(alpha=0.5, min_messages=1.0)
    assert np.isfinite(presence_log_odds(table(rows), weights, options)).all()
    assert (absence_log_probabilities(table(rows), weights, options) <= 0).all()


def test_a_token_in_more_messages_than_there_are_is_in_all_of_them() -> None:
    weights, options = [4000, 4000], BernoulliOptions(min_messages=1.0)
    early, late = np.array([[5000, 1000]]), np.array([[4000, 1000]])
    assert (
        presence_log_odds(early, weights, options).tolist() == presence_log_odds(late, weights, options).tolist()
    )
    assert (
        absence_log_probabilities(early, weights, options).tolist()
        == absence_log_probabilities(late, weights, options).tolist()
    )


@given(ROWS, WEIGHTS, st.randoms(use_true_random=False))
def test_the_order_of_tokens_makes_no_difference_to_the_last_bit(
    rows: list[list[int]], weights: list[int], generator: random.Random
) -> None:
    expected = absence_log_probabilities(table(rows), weights, BernoulliOptions(min_messages=1.0))
    generator.shuffle(rows)
    assert (
        absence_log_probabilities(table(rows), weights, BernoulliOptions(min_messages=1.0)).tolist()
        == expected.tolist()
    )


@given(MESSAGES, st.randoms(use_true_random=False))
def test_the_order_of_learning_makes_no_difference(messages: Learned, generator: random.Random) -> None:
    present, absent = scores(messages)
    generator.shuffle(messages)
    assert [rows.tolist() for rows in scores(messages)] == [present.tolist(), absent.tolist()]


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_options_that_are_no_number_above_zero_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        BernoulliOptions(alpha=value)
    with pytest.raises(ValueError, match="min_messages"):
        BernoulliOptions(min_messages=value)
