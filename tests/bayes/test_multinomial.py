import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.naive_bayes import ComplementNB, MultinomialNB

from nbstream.bayes import priors
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, Totals
from nbstream.bayes.multinomial import (
    Lidstone,
    MEstimate,
    MultinomialOptions,
    Smoothing,
    token_log_probabilities,
    token_log_ratios,
)

TOKENS = [b"a", b"b", b"c", b"d", b"e"]
MESSAGES = st.lists(
    st.tuples(
        st.lists(st.sampled_from(TOKENS), unique=True, min_size=1), st.integers(0, 2), st.integers(1, WEIGHT_ONE)
    ),
    min_size=1,
    max_size=12,
)
SMOOTHINGS = st.one_of(
    st.floats(0.01, 10.0).map(Lidstone),
    st.floats(0.01, 10.0).map(MEstimate),
)


def totals_of(counts: NDArray[np.int64], messages: tuple[int, ...] | None = None) -> Totals:
    """The totals of a model that holds these counts and no others."""
    sums = tuple(counts.sum(axis=0).tolist())
    return Totals(messages or (1,) * len(sums), sums, int(counts.any(axis=1).sum()))


def trained_counts(messages: list[tuple[list[bytes], int, int]]) -> ClassCounts:
    counts = ClassCounts(classes=3)
    for message in messages:
        counts.add(*message)
    return counts


def documents(classes: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How often each of 60 tokens occurs in 200 documents, and the documents' classes."""
    generator = np.random.default_rng(classes)
    labels = generator.choice(classes, 200, p=np.arange(1, classes + 1) / (classes * (classes + 1) / 2))
    rates = generator.gamma(0.3, 2.0, (classes, 60)) + 0.05
    return generator.poisson(rates[labels]), labels


def counts_of(
    occurrences: NDArray[np.int64], labels: NDArray[np.int64], classes: int
) -> tuple[NDArray[np.int64], Totals]:
    """Counts and totals after learning the documents."""
    counts = WEIGHT_ONE * np.array([occurrences[labels == label].sum(axis=0) for label in range(classes)]).T
    return counts, totals_of(counts, tuple(np.bincount(labels, minlength=classes).tolist()))


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_scores_are_those_of_scikit_learns_multinomial_model(classes: int, alpha: float) -> None:
    occurrences, labels = documents(classes)
    counts, totals = counts_of(occurrences, labels, classes)
    theirs = MultinomialNB(alpha=alpha).fit(occurrences, labels)

    rows = token_log_probabilities(counts, totals, MultinomialOptions(Lidstone(alpha)))
    scores = priors.log_priors(totals.messages, priors.PriorOptions(alpha=0.0)) + occurrences @ rows

    np.testing.assert_allclose(rows, theirs.feature_log_prob_.T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(scores, theirs.predict_joint_log_proba(occurrences), rtol=0, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 4])
@pytest.mark.parametrize("alpha", [1.0, 0.1])
def test_complement_weights_are_those_of_scikit_learns_complement_model(classes: int, alpha: float) -> None:
    occurrences, labels = documents(classes)
    counts, totals = counts_of(occurrences, labels, classes)
    theirs = ComplementNB(alpha=alpha, norm=False).fit(occurrences, labels)

    rows = token_log_probabilities(counts, totals, MultinomialOptions(Lidstone(alpha), complement=True))

    np.testing.assert_allclose(rows, theirs.feature_log_prob_.T, rtol=0, atol=1e-9)
    np.testing.assert_allclose(occurrences @ rows, theirs.predict_joint_log_proba(occurrences), rtol=0, atol=1e-9)


@given(SMOOTHINGS)
def test_between_two_classes_the_complement_makes_no_difference(smoothing: Smoothing) -> None:
    counts = np.array([[0, 5000], [3000, 100], [20_000, 0], [700, 700]])
    plain = token_log_probabilities(counts, totals_of(counts), MultinomialOptions(smoothing))
    complement = token_log_probabilities(counts, totals_of(counts), MultinomialOptions(smoothing, complement=True))
    assert np.diff(complement) == pytest.approx(np.diff(plain))


def test_the_complement_of_a_class_is_all_the_others() -> None:
    counts = np.array([[1000, 2000, 4000], [5000, 0, 0]])
    rows = token_log_probabilities(counts, totals_of(counts), MultinomialOptions(Lidstone(1.0), complement=True))
    assert np.exp(-rows[0]).tolist() == pytest.approx([(2 + 4 + 1) / (6 + 2), (1 + 4 + 1) / (10 + 2), 4 / (8 + 2)])


@given(MESSAGES, SMOOTHINGS)
def test_the_probabilities_of_the_vocabulary_sum_to_one(
    messages: list[tuple[list[bytes], int, int]], smoothing: Smoothing
) -> None:
    counts = trained_counts(messages)
    vocabulary = sorted({token for tokens, _, _ in messages for token in tokens})
    rows = token_log_probabilities(counts.look_up(vocabulary), counts.totals, MultinomialOptions(smoothing))
    assert np.exp(rows).sum(axis=0).tolist() == pytest.approx([1.0] * 3)


@given(MESSAGES, SMOOTHINGS, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_learning_makes_no_difference(
    messages: list[tuple[list[bytes], int, int]], smoothing: Smoothing, complement: bool, generator: random.Random
) -> None:
    first = trained_counts(messages)
    generator.shuffle(messages)
    second = trained_counts(messages)
    options = MultinomialOptions(smoothing, complement)
    expected = token_log_probabilities(first.look_up(TOKENS), first.totals, options)
    assert token_log_probabilities(second.look_up(TOKENS), second.totals, options).tolist() == expected.tolist()


@given(MESSAGES, SMOOTHINGS, st.booleans())
def test_what_is_learned_and_taken_back_leaves_no_trace(
    messages: list[tuple[list[bytes], int, int]], smoothing: Smoothing, complement: bool
) -> None:
    counts, options = trained_counts(messages[1:]), MultinomialOptions(smoothing, complement)
    expected = token_log_probabilities(counts.look_up(TOKENS), counts.totals, options)
    counts.add(*messages[0])
    counts.subtract(*messages[0])
    assert token_log_probabilities(counts.look_up(TOKENS), counts.totals, options).tolist() == expected.tolist()


@given(st.integers(1, 1000), st.integers(1, 1000), st.floats(0.01, 1000.0))
def test_by_the_m_estimate_a_token_as_frequent_in_each_class_says_nothing_whatever_their_sizes(
    small: int, large: int, m: float
) -> None:
    counts = np.array([[3, 3], [7, 7]]) * np.array([small, large])
    rows = token_log_probabilities(counts, totals_of(counts), MultinomialOptions(MEstimate(m)))
    assert rows[:, 0] == pytest.approx(rows[:, 1])


def test_by_lidstones_estimate_such_a_token_speaks_for_the_smaller_class_if_it_is_rare() -> None:
    counts = np.array([[1, 100], [20, 2000], [30, 3000]]) * WEIGHT_ONE
    rows = token_log_probabilities(counts, totals_of(counts), MultinomialOptions(Lidstone(1.0)))
    assert rows[0, 0] > rows[0, 1] + 0.5


@pytest.mark.parametrize("smoothing", [Lidstone(0.2), MEstimate(5.0)])
@pytest.mark.parametrize("complement", [False, True])
def test_a_token_never_seen_says_nothing_in_any_class(smoothing: Smoothing, complement: bool) -> None:
    counts = np.array([[9000, 1000, 0], [0, 0, 0], [-7, 0, -1]])
    totals = Totals(messages=(9, 1, 0), tokens=(18_000, 2000, 0), vocabulary_size=2)
    rows = token_log_probabilities(counts, totals, MultinomialOptions(smoothing, complement))
    assert rows[0].all()
    assert rows[1:].tolist() == [[0.0] * 3] * 2


@pytest.mark.parametrize("smoothing", [Lidstone(0.2), MEstimate(5.0)])
@pytest.mark.parametrize("complement", [False, True])
def test_counts_that_came_before_their_totals_have_finite_probabilities(
    smoothing: Smoothing, complement: bool
) -> None:
    rows = token_log_probabilities(
        np.array([[5000, -3000]]), Totals((0, 0), (-2000, 0), 0), MultinomialOptions(smoothing, complement)
    )
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("value", [0.0, -1.0, math.inf, math.nan])
def test_smoothing_by_nothing_or_by_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        Lidstone(value)
    with pytest.raises(ValueError, match="m must"):
        MEstimate(value)


@given(
    st.lists(st.tuples(st.integers(-5000, 50_000), st.integers(-5000, 50_000)), max_size=9), st.floats(0.01, 10.0)
)
def test_the_ratio_is_the_difference_of_the_two_log_probabilities(
    rows: list[tuple[int, int]], alpha: float
) -> None:
    counts = np.array(rows, dtype=np.int64).reshape(-1, 2)
    totals = Totals(messages=(3, 2), tokens=(400_000, 100_000), vocabulary_size=50)
    ham, spam = token_log_probabilities(counts, totals, MultinomialOptions(Lidstone(alpha))).T
    np.testing.assert_allclose(token_log_ratios(counts, totals, alpha), spam - ham, rtol=0, atol=1e-12)


def test_the_ratio_follows_the_formula() -> None:
    totals = Totals(messages=(3, 2), tokens=(40_000, 10_000), vocabulary_size=50)
    ratios = token_log_ratios(np.array([[1000, 3000]]), totals, 0.2)
    spam, ham = (3 + 0.2) / (10 + 0.2 * 50), (1 + 0.2) / (40 + 0.2 * 50)
    assert ratios[0] == pytest.approx(math.log(spam / ham))


def test_the_ratio_of_a_token_never_seen_says_nothing() -> None:
    totals = Totals(messages=(9, 1), tokens=(9000, 1000), vocabulary_size=10)
    assert token_log_ratios(np.array([[0, 0], [0, 0]]), totals, 0.2).tolist() == [0.0, 0.0]


def test_a_negative_count_reads_as_none() -> None:
    totals = Totals(messages=(1, 1), tokens=(1000, 1000), vocabulary_size=2)
    rows = np.array([[-5000, 1000], [0, 1000], [-1, -1]])
    ratios = token_log_ratios(rows, totals, 0.2)
    assert ratios[0] == ratios[1]
    assert ratios[2] == 0.0


def test_equal_counts_under_equal_totals_say_nothing() -> None:
    totals = Totals(messages=(1, 1), tokens=(1000, 1000), vocabulary_size=2)
    assert token_log_ratios(np.array([[700, 700]]), totals, 0.2)[0] == 0.0


def test_an_empty_model_is_defined() -> None:
    assert token_log_ratios(np.zeros((3, 2), dtype=np.int64), Totals(), 0.2).tolist() == [0.0] * 3


# To the last bit


@given(
    st.lists(st.tuples(st.integers(-5000, 2**53), st.integers(-5000, 2**53)), max_size=9),
    st.tuples(st.integers(-5000, 2**53), st.integers(-5000, 2**53)),
    st.integers(-5, 10**8),
    st.floats(0.01, 10.0),
    st.floats(1.0, 2.0**26),
)
def test_the_ratio_is_one_logarithm_a_token_and_one_a_message(
    rows: list[tuple[int, int]], tokens: tuple[int, int], vocabulary: int, alpha: float, growth: float
) -> None:
    unit = WEIGHT_ONE * growth
    ham_mass, spam_mass = (max(weight, 0) / unit + alpha * max(vocabulary, 1) for weight in tokens)
    expected = [
        math.log((max(spam, 0) / unit + alpha) / (max(ham, 0) / unit + alpha)) + math.log(ham_mass / spam_mass)
        if max(ham, spam) > 0
        else 0.0
        for ham, spam in rows
    ]
    counts = np.array(rows, dtype=np.int64).reshape(-1, 2)
    assert token_log_ratios(counts, Totals((3, 2), tokens, vocabulary), alpha, unit).tolist() == expected


def test_the_ratio_has_these_bits_on_every_processor() -> None:
    # The exact logarithms lie well inside the intervals that are rounded to these numbers.
    totals = Totals((9000, 4000), (1_234_567_890, 987_654_321), 345_678)
    rows = np.array([[0, 1000], [350, 0], [123_456, 789], [1, 2], [-7, 47], [0, 0]])
    assert [ratio.hex() for ratio in token_log_ratios(rows, totals, 0.12, 1370.0).tolist()] == [
        "0x1.15bdffb2e8810p+1",
        "-0x1.db63e88cf219bp-1",
        "-0x1.29c665d7044c1p+2",
        "0x1.beef46b03e1ebp-3",
        "0x1.dac7809066c34p-2",
        "0x0.0p+0",
    ]


@given(st.lists(st.tuples(st.integers(0, 2**53), st.integers(0, 2**53)), min_size=1, max_size=9))
def test_the_ratio_is_that_of_numpys_logarithm_but_for_rounding(rows: list[tuple[int, int]]) -> None:
    totals, counts = Totals((3, 2), (400_000, 100_000), 50), np.array(rows)
    ham, spam = (counts / WEIGHT_ONE + 0.12).T
    expected = np.where(counts.any(axis=1), np.log(spam / ham) + np.log((400 + 6) / (100 + 6)), 0.0)
    np.testing.assert_allclose(token_log_ratios(counts, totals, 0.12), expected, rtol=0, atol=1e-12)
