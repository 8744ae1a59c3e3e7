"""Examples worked by hand, as in the textbooks."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from nbstream.bayes import BernoulliNB, CategoricalNB, MultinomialNB
from nbstream.bayes.counts import WEIGHT_ONE, Totals
from nbstream.bayes.multinomial import HAM, SPAM, log_priors, token_log_ratios

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
ATTRIBUTES = ("outlook", "temperature", "humidity", "wind")
NEW_DAY = ("sunny", "cool", "high", "strong")


class TestFourHeadsInFourTossesWithOneCountAddedToEachSideAreFiveSixths:
    def test_as_a_prior(self) -> None:
        heads, _ = np.exp(log_priors((4, 0), alpha=1.0))
        assert heads == pytest.approx(5 / 6)

    def test_as_tokens(self) -> None:
        model = MultinomialNB(["coin", "other"], alpha=1.0)
        model.learn(["heads"] * 4, "coin")
        model.learn(["tails"], "other")  # tails are in the vocabulary by that
        assert math.exp(model.evidence(["heads"]).features["heads"][0]) == pytest.approx(5 / 6)

    def test_as_presence(self) -> None:
        model = BernoulliNB(["coin", "other"], alpha=1.0)
        model.learn(["heads"], "coin", weight=4)
        odds = math.exp(model.evidence(["heads"]).features["heads"][0])
        assert odds / (1 + odds) == pytest.approx(5 / 6)

    def test_as_values_of_an_attribute(self) -> None:
        model = CategoricalNB(["coin", "other"], alpha=1.0)
        model.learn({"side": "heads"}, "coin", weight=4)
        model.learn({"side": "tails"}, "other")
        rows = [model.evidence({"side": side}).features["side"][0] for side in ("heads", "tails")]
        assert np.exp(rows).tolist() == pytest.approx([5 / 6, 1 / 6])


def test_tennis_is_played_with_probability_0_205() -> None:
    model = CategoricalNB(["no", "yes"], alpha=0, prior_alpha=0)  # the book's shares are not smoothed
    for *values, played in map(str.split, DAYS.strip().splitlines()):
        model.learn(dict(zip(ATTRIBUTES, values, strict=True)), played)

    new_day = dict(zip(ATTRIBUTES, NEW_DAY, strict=True))
    evidence = model.evidence(new_day)
    no, yes = np.exp(evidence.log_joint)

    assert math.exp(evidence.prior[1]) == pytest.approx(9 / 14)
    assert yes == pytest.approx(0.0053, abs=5e-5)
    assert no == pytest.approx(0.0206, abs=5e-5)
    assert model.probabilities(new_day)["yes"] == pytest.approx(0.205, abs=5e-4)


def test_multinomial_naive_bayes_of_two_classes_is_a_linear_classifier() -> None:
    """The odds of Bayes' rule, as fractions, against f . theta + b with f the occurrences in the message."""
    counts, totals = np.array([[7000, 1000], [0, 4000], [2000, 2000]]), Totals((5, 3), (9000, 7000), 3)
    message = [1, 3, 2]
    likelihood = {HAM: Fraction(5, 8), SPAM: Fraction(3, 8)}
    for label, sum_of_counts in ((HAM, 9), (SPAM, 7)):
        for occurrences, count in zip(message, counts[:, label].tolist(), strict=True):
            likelihood[label] *= Fraction(count // WEIGHT_ONE + 1, sum_of_counts + 3) ** occurrences

    theta = token_log_ratios(counts, totals, alpha=1.0)
    ham, spam = log_priors(totals.messages, alpha=0.0)
    log_odds = np.array(message) @ theta + (spam - ham)

    assert log_odds == pytest.approx(math.log(likelihood[SPAM] / likelihood[HAM]), abs=1e-12)
