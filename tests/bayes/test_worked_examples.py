"""Examples worked by hand, as in the textbooks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from nbstream.bayes import bernoulli, categorical, multinomial, priors
from nbstream.bayes.counts import WEIGHT_ONE, ClassCounts, Totals
from nbstream.bayes.multinomial import HAM, SPAM, Lidstone, MEstimate

MAXIMUM_LIKELIHOOD = priors.PriorOptions(alpha=0.0)

# Quinlan, "Induction of decision trees" (1986), table 1: outlook, temperature, humidity, wind, and whether tennis
# was played. Mitchell, "Machine Learning" (1997), 6.9.1, classifies the day below with these.
DAYS = """
sunny hot high weak no
sunny hot high strong no
overcast hot high weak yes
rain mild high weak yes
rain cool normal weak yes
rain cool normal strong no
overcast cool normal strong yes
sunny mild high weak no
sunny cool normal weak yes
rain mild normal weak yes
sunny mild normal strong yes
overcast mild high strong yes
overcast hot normal weak yes
rain mild high strong no
"""
ATTRIBUTES = (("sunny", "overcast", "rain"), ("hot", "mild", "cool"), ("high", "normal"), ("weak", "strong"))
NEW_DAY = ("sunny", "cool", "high", "strong")
NO, YES = 0, 1


class TestFourHeadsInFourTossesWithOneCountAddedToEachSideAreFiveSixths:
    def test_as_a_prior(self) -> None:
        heads, _ = np.exp(priors.log_priors((4, 0), priors.PriorOptions(alpha=1.0)))
        assert heads == pytest.approx(5 / 6)

    def test_as_tokens(self) -> None:
        # The other class has seen tails, which are in the vocabulary by that.
        counts, totals = np.array([[4000, 0], [0, 1000]]), Totals((4, 1), (4000, 1000), vocabulary_size=2)
        rows = multinomial.token_log_probabilities(counts, totals, multinomial.MultinomialOptions(Lidstone(1.0)))
        assert math.exp(rows[0, 0]) == pytest.approx(5 / 6)

    def test_as_presence(self) -> None:
        options = bernoulli.BernoulliOptions(alpha=1.0, min_messages=1.0)
        odds = math.exp(bernoulli.presence_log_odds(np.array([[4000]]), [4000], options)[0, 0])
        assert odds / (1 + odds) == pytest.approx(5 / 6)

    def test_as_values_of_an_attribute(self) -> None:
        rows = categorical.value_log_probabilities(
            np.array([[4000], [0]]), (2,), categorical.CategoricalOptions(alpha=1.0)
        )
        assert np.exp(rows)[:, 0].tolist() == pytest.approx([5 / 6, 1 / 6])


def test_tennis_is_played_with_probability_0_205() -> None:
    counts = ClassCounts()
    for *values, played in map(str.split, DAYS.strip().splitlines()):
        counts.add([value.encode() for value in values], YES if played == "yes" else NO, WEIGHT_ONE)
    prior = priors.log_priors(counts.totals.messages, MAXIMUM_LIKELIHOOD)
    assert math.exp(prior[YES]) == pytest.approx(9 / 14)

    values = [value for attribute_values in ATTRIBUTES for value in attribute_values]
    rows = categorical.value_log_probabilities(
        counts.look_up([value.encode() for value in values]),
        [len(attribute_values) for attribute_values in ATTRIBUTES],
        categorical.CategoricalOptions(alpha=1e-12),  # the book's shares are not smoothed
    )
    products = np.exp(prior + rows[[values.index(value) for value in NEW_DAY]].sum(axis=0))

    assert products[YES] == pytest.approx(0.0053, abs=5e-5)
    assert products[NO] == pytest.approx(0.0206, abs=5e-5)
    assert products[YES] / products.sum() == pytest.approx(0.205, abs=5e-4)


def test_the_m_estimate_by_hand() -> None:
    """The token makes 4 of 40 occurrences in all; ham has it 1 time in 30, spam 3 times in 10; m is 5."""
    totals = Totals(messages=(3, 1), tokens=(30_000, 10_000), vocabulary_size=17)
    options = multinomial.MultinomialOptions(MEstimate(5.0))
    ham, spam = np.exp(multinomial.token_log_probabilities(np.array([[1000, 3000]]), totals, options)[0])
    assert ham == pytest.approx((1 + 5 * 0.1) / (30 + 5))
    assert spam == pytest.approx((3 + 5 * 0.1) / (10 + 5))


def test_multinomial_naive_bayes_of_two_classes_is_a_linear_classifier() -> None:
    """The odds of Bayes' rule, as fractions, against f . theta + b with f the occurrences in the message."""
    counts, totals = np.array([[7000, 1000], [0, 4000], [2000, 2000]]), Totals((5, 3), (9000, 7000), 3)
    message = [1, 3, 2]
    likelihood = {HAM: Fraction(5, 8), SPAM: Fraction(3, 8)}
    for label, sum_of_counts in ((HAM, 9), (SPAM, 7)):
        for occurrences, count in zip(message, counts[:, label].tolist(), strict=True):
            likelihood[label] *= Fraction(count // WEIGHT_ONE + 1, sum_of_counts + 3) ** occurrences

    theta = multinomial.token_log_ratios(counts, totals, smoothing=1.0)
    ham, spam = priors.log_priors(totals.messages, MAXIMUM_LIKELIHOOD)
    log_odds = np.array(message) @ theta + (spam - ham)

    assert log_odds == pytest.approx(math.log(likelihood[SPAM] / likelihood[HAM]), abs=1e-12)
