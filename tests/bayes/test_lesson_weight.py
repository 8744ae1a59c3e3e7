import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import sigmoid
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, Totals
from nbstream.bayes.lesson_weight import (
    MAX_LESSONS,
    LessonWeightOptions,
    insisted_weights,
    lesson_weight,
    max_entry_weight,
)

OPTIONS = LessonWeightOptions()
UNTAUGHT, WELL_TAUGHT = Totals(), Totals(messages=(10**6, 10**6))
SCORES = st.floats(-500, 500)
LABELS = st.sampled_from(CLASSES)
MESSAGES = st.integers(-3, 100_000)


def totals_of(ham: int, spam: int) -> Totals:
    return Totals(messages=(ham, spam))


def contradicting(
    divisors: float, totals: Totals, options: LessonWeightOptions = OPTIONS, *, certain: bool = False
) -> int:
    """The weight of a spam of which the model was sure, by so many divisors, that it is ham."""
    return lesson_weight(-divisors * options.divisor, "spam", totals, options, certain=certain)


@given(SCORES, LABELS, MESSAGES, MESSAGES, st.booleans())
def test_without_options_every_label_has_full_weight(
    log_odds: float, label: str, ham: int, spam: int, certain: bool
) -> None:
    assert lesson_weight(log_odds, label, totals_of(ham, spam), None, certain=certain) == WEIGHT_ONE


@given(SCORES, MESSAGES, MESSAGES)
def test_a_certain_label_weighs_one_minus_its_probability(log_odds: float, ham: int, spam: int) -> None:
    probability = 1 / (1 + math.exp(-log_odds / OPTIONS.divisor))
    spam_weight, ham_weight = (
        lesson_weight(log_odds, label, totals_of(ham, spam), OPTIONS, certain=True) for label in ("spam", "ham")
    )
    assert spam_weight == pytest.approx(WEIGHT_ONE * (1 - probability), abs=1)
    assert ham_weight == pytest.approx(WEIGHT_ONE * probability, abs=1)
    assert abs(spam_weight + ham_weight - WEIGHT_ONE) <= 1


@pytest.mark.parametrize("totals", [UNTAUGHT, WELL_TAUGHT])
@pytest.mark.parametrize("label", CLASSES)
def test_an_open_question_is_learned_at_half_weight(label: str, totals: Totals) -> None:
    assert lesson_weight(0.0, label, totals, OPTIONS) == WEIGHT_ONE // 2


@given(SCORES, LABELS, MESSAGES, MESSAGES, st.booleans())
def test_a_weight_is_an_integer_from_nothing_to_full(
    log_odds: float, label: str, ham: int, spam: int, certain: bool
) -> None:
    weight = lesson_weight(log_odds, label, totals_of(ham, spam), OPTIONS, certain=certain)
    assert isinstance(weight, int)
    assert 0 <= weight <= WEIGHT_ONE


@given(SCORES, MESSAGES, MESSAGES, st.booleans())
def test_the_classes_are_treated_alike(log_odds: float, ham: int, spam: int, certain: bool) -> None:
    mirrored = lesson_weight(-log_odds, "ham", totals_of(spam, ham), OPTIONS, certain=certain)
    assert lesson_weight(log_odds, "spam", totals_of(ham, spam), OPTIONS, certain=certain) == mirrored


@given(st.floats(0, 500), st.floats(0, 500), MESSAGES)
def test_the_surer_the_model_was_the_less_a_label_that_agrees_teaches(one: float, other: float, n: int) -> None:
    less, more = sorted((one, other))
    assert lesson_weight(more, "spam", totals_of(n, n), OPTIONS) <= lesson_weight(
        less, "spam", totals_of(n, n), OPTIONS
    )


@given(st.floats(0, 500), MESSAGES)
def test_a_label_that_agrees_is_not_doubted(log_odds: float, n: int) -> None:
    assert lesson_weight(log_odds, "spam", totals_of(n, n), OPTIONS) == lesson_weight(
        log_odds, "spam", UNTAUGHT, OPTIONS
    )


def test_what_contradicts_a_well_taught_model_is_doubted() -> None:
    doubted = [contradicting(divisors, WELL_TAUGHT) for divisors in (0.5, 1.0, 1.2)]
    certain = [contradicting(divisors, WELL_TAUGHT, certain=True) for divisors in (0.5, 1.0, 1.2)]
    assert all(weight < certain_weight / 1.9 for weight, certain_weight in zip(doubted, certain, strict=True))
    assert doubted == sorted(doubted, reverse=True)  # the further it is off, the likelier it is a slip
    assert certain == sorted(certain)


@given(st.floats(0, 20))
def test_what_contradicts_an_untaught_model_is_news(divisors: float) -> None:
    assert contradicting(divisors, UNTAUGHT) == contradicting(divisors, UNTAUGHT, certain=True)


@given(st.floats(0, 20), MESSAGES, MESSAGES)
def test_the_doubt_grows_with_what_the_model_knows(divisors: float, one: int, other: int) -> None:
    fewer, more = sorted((one, other))
    assert contradicting(divisors, totals_of(more, more)) <= contradicting(divisors, totals_of(fewer, fewer))


@given(st.floats(0, 20), MESSAGES, MESSAGES)
def test_the_doubt_depends_on_the_messages_of_the_smaller_class(divisors: float, ham: int, spam: int) -> None:
    smaller = min(ham, spam)
    assert contradicting(divisors, totals_of(ham, spam)) == contradicting(divisors, totals_of(smaller, smaller))


def test_the_doubt_is_half_as_strong_at_its_number_of_messages() -> None:
    options = LessonWeightOptions(doubt_strength=8.0, doubt_messages=70, min_doubt_factor=0.0)
    expected = WEIGHT_ONE * sigmoid(0.5) / (1 + 8.0 / 2 * 0.5**2)
    assert contradicting(0.5, totals_of(70, 10**6), options) == round(expected)


@given(st.floats(0, 20), MESSAGES, st.floats(0, 1))
def test_the_doubt_leaves_at_least_the_minimum_factor(divisors: float, n: int, least: float) -> None:
    options = LessonWeightOptions(min_doubt_factor=least)
    undoubted = contradicting(divisors, totals_of(n, n), options, certain=True)
    assert contradicting(divisors, totals_of(n, n), options) >= round(least * undoubted) - 1
    assert contradicting(1000.0, WELL_TAUGHT, options) == pytest.approx(least * WEIGHT_ONE, abs=1)


@given(st.integers(0, 5 * WEIGHT_ONE), st.sampled_from([1.0, 1.7, 2.0**20]))
def test_whoever_insists_gives_more_weight_up_to_the_bound(present_weight: int, growth: float) -> None:
    weights = insisted_weights(present_weight, growth)

    assert sorted(set(weights)) == list(weights)
    assert all(present_weight < weight <= max_entry_weight(growth) for weight in weights)
    assert bool(weights) == (present_weight < max_entry_weight(growth))
    assert not weights or weights[-1] == max_entry_weight(growth)


def test_a_message_weighs_three_lessons_at_most() -> None:
    assert MAX_LESSONS == 3
    assert insisted_weights(0) == (1000, 1500, 2000, 2500, 3000)
    assert insisted_weights(1000) == (1500, 2000, 2500, 3000)
    assert insisted_weights(2999) == (3000,)
    assert insisted_weights(3000) == ()


def test_after_a_half_life_an_old_message_has_room_for_more_weight() -> None:
    assert insisted_weights(3000, growth=2.0) == (4000, 5000, 6000)
