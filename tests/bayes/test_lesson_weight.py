import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.lesson_weight import (
    MAX_ENTRY_WEIGHT,
    lesson_weight,
    reinforced_weights,
)

SCORES = st.floats(-500, 500)
LABELS = st.sampled_from(CLASSES)


@given(SCORES)
def test_a_certain_label_weighs_one_minus_its_probability(log_odds: float) -> None:
    probability = 1 / (1 + math.exp(-log_odds / 20))
    spam_weight, ham_weight = (lesson_weight(log_odds, label, certain=True) for label in ("spam", "ham"))
    assert spam_weight == pytest.approx(WEIGHT_ONE * (1 - probability), abs=1)
    assert ham_weight == pytest.approx(WEIGHT_ONE * probability, abs=1)
    assert abs(spam_weight + ham_weight - WEIGHT_ONE) <= 1


@given(SCORES, LABELS, st.booleans())
def test_a_weight_is_an_integer_from_nothing_to_full(log_odds: float, label: str, certain: bool) -> None:
    weight = lesson_weight(log_odds, label, certain=certain)
    assert isinstance(weight, int)
    assert 0 <= weight <= WEIGHT_ONE


@given(SCORES, SCORES, st.booleans())
def test_the_surer_the_model_was_of_the_label_the_less_it_teaches(one: float, other: float, certain: bool) -> None:
    less, more = sorted((one, other))
    assert lesson_weight(more, "spam", certain=certain) <= lesson_weight(less, "spam", certain=certain)


@given(st.floats(0, 500), LABELS)
def test_what_contradicts_the_model_teaches_as_much_as_it_may_and_not_more(
    contradiction: float, label: str
) -> None:
    log_odds = contradiction if label == "ham" else -contradiction
    assert lesson_weight(log_odds, label) == round(0.35 * WEIGHT_ONE)
    assert lesson_weight(log_odds, label, certain=True) >= WEIGHT_ONE // 2


@given(st.integers(0, 5 * WEIGHT_ONE))
def test_whoever_reinforces_gives_more_weight_up_to_the_bound(present_weight: int) -> None:
    weights = reinforced_weights(present_weight)

    assert sorted(set(weights)) == list(weights)
    assert all(present_weight < weight <= MAX_ENTRY_WEIGHT for weight in weights)
    assert bool(weights) == (present_weight < MAX_ENTRY_WEIGHT)
    assert not weights or weights[-1] == MAX_ENTRY_WEIGHT
