"""What may be learned without a person: what is sure, as much of each class, and with a bounded effect."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import sigmoid
from nbstream.bayes.counts import Totals
from nbstream.policy.autolearn import (
    MAX_SHIFT,
    SPAM_MARGIN,
    counts_implicit_ham,
    is_balanced,
    is_kept_ham,
    is_known,
    is_settled,
    limit_log_odds,
    limit_probability,
    model_state,
)
from nbstream.policy.verdict import ModelState, Thresholds


@pytest.mark.parametrize(
    ("ham", "spam", "ham_may", "spam_may"),
    [(0, 0, True, True), (2, 0, True, True), (3, 0, False, True), (7, 10, True, False), (10, 8, True, True)],
)
def test_a_class_leads_by_no_more_than_max_lead(ham: int, spam: int, ham_may: bool, spam_may: bool) -> None:
    assert (is_balanced("ham", (ham, spam), 3), is_balanced("spam", (ham, spam), 3)) == (
        ham_may,
        spam_may,
    )


def logit(probability: float) -> float:
    return math.log(probability / (1 - probability))


@pytest.mark.parametrize("by_people", [-20.0, -5.0, -1.0, 0.0, 2.0, 8.0])
@pytest.mark.parametrize("shift", [-2.9, -1.0, 0.0, 2.9])
def test_a_layer_moves_a_score_as_it_likes_within_the_limit(by_people: float, shift: float) -> None:
    assert limit_log_odds(by_people, by_people + shift, sigmoid) == by_people + shift


def allows(by_people: float, by_both: float) -> bool:
    """Whether a layer may lead from the one P(spam) to the other."""
    return limit_log_odds(0.0, 1.0, lambda log_odds: by_both if log_odds == 1 else by_people) == 1


def test_no_rounding_leads_from_spam_to_ham_or_from_ham_to_spam() -> None:
    for steps in range(1, 50):
        assert not allows(0.95, 0.5 - steps * math.ulp(0.25))
        assert not allows(0.5 - steps * math.ulp(0.25), 0.95)
    assert allows(0.95, 0.5 + 1e-12)
    assert allows(0.5, 0.95 - 1e-12)


def test_what_is_sure_by_what_people_taught_stays_on_its_side_and_may_become_surer() -> None:
    assert sigmoid(limit_log_odds(logit(0.999), -90.0, sigmoid)) > 0.98
    assert sigmoid(limit_log_odds(30.0, -90.0, sigmoid)) > 0.98
    assert sigmoid(limit_log_odds(-30.0, 90.0, sigmoid)) < 0.02
    assert limit_log_odds(7.0, 90.0, sigmoid) == 90.0
    assert limit_log_odds(-7.0, -90.0, sigmoid) == -90.0


@pytest.mark.parametrize("by_people", [0.001, 0.3, 0.5, 0.9, 0.98, 0.999])
@pytest.mark.parametrize("by_both", [1e-6, 0.2, 0.5, 0.95, 0.9999])
def test_a_probability_with_its_discount_moves_by_no_more_than_the_limit(by_people: float, by_both: float) -> None:
    limited = limit_probability(by_people, by_both)

    assert abs(logit(limited) - logit(by_people)) <= MAX_SHIFT or limited == by_both
    assert (limited - by_people) * (by_both - by_people) >= 0
    assert limit_probability(by_people, by_people) == by_people


NEEDED = {"ham": 20, "spam": 20}


@pytest.mark.parametrize(
    ("people", "layer", "state"),
    [
        ((0, 0), (0, 0), "learning 0/40"),
        ((0, 14), (0, 0), "learning 14/40"),
        ((0, 14), (20, 0), "learning 34/40, 20 of them implicit ham"),
        ((5, 14), (10, 0), "learning 29/40, 10 of them implicit ham"),
        ((0, 20), (19, 0), "learning 39/40, 19 of them implicit ham"),
        ((0, 20), (20, 0), "ready"),
        ((0, 19), (300, 300), "learning 39/40, 20 of them implicit ham"),
        ((15, 19), (300, 300), "learning 39/40, 5 of them implicit ham"),
        ((20, 19), (300, 300), "learning 39/40"),
    ],
)
def test_implicit_ham_counts_as_ham_until_people_have_taught_enough(
    people: tuple[int, int], layer: tuple[int, int], state: str
) -> None:
    assert str(model_state(Totals(people), NEEDED, Totals(layer))) == state


@pytest.mark.parametrize(("ham", "counts"), [(0, True), (19, True), (20, False), (1000, False)])
def test_implicit_ham_is_learned_while_people_have_taught_too_little_ham(ham: int, counts: bool) -> None:
    assert counts_implicit_ham(Totals((ham, 50)), NEEDED) is counts


@pytest.mark.parametrize(
    ("ham", "probability", "may"),
    [(0, 0.99, True), (19, 0.99, True), (20, 0.39, True), (20, 0.4, False), (20, 0.99, False)],
)
def test_the_first_implicit_ham_is_ham_in_any_case_and_later_mail_where_it_is_called_ham(
    ham: int, probability: float, may: bool
) -> None:
    state = ModelState({"ham": ham, "spam": 0}, NEEDED)

    assert is_kept_ham(probability, Thresholds(unsure=0.4), state) is may


@pytest.mark.parametrize(
    ("label", "log_odds", "known"),
    [
        ("spam", 50.0, False),
        ("spam", 50.1, True),
        ("spam", -60.0, False),
        ("ham", -50.1, True),
        ("ham", 60.0, False),
    ],
)
def test_a_message_far_on_the_side_of_its_label_says_nothing_new(label: str, log_odds: float, known: bool) -> None:
    assert is_known(label, log_odds) is known


LOG_ODDS = st.floats(-60, 60)


def calibrated(log_odds: float) -> float:
    return sigmoid(log_odds / 3)


@given(LOG_ODDS, LOG_ODDS, st.floats(0.6, 0.9999))
def test_what_people_alone_put_a_margin_above_the_threshold_stays_spam_whatever_the_layer_says(
    by_people: float, by_both: float, threshold: float
) -> None:
    limited = limit_log_odds(by_people, by_both, calibrated, threshold)

    if logit(calibrated(by_people)) >= logit(threshold) + SPAM_MARGIN:
        assert calibrated(limited) >= threshold
    else:
        assert limited == limit_log_odds(by_people, by_both, calibrated)


@given(LOG_ODDS, LOG_ODDS, st.floats(0.6, 0.9999))
def test_a_limited_score_lies_between_that_of_people_and_that_of_both(
    by_people: float, by_both: float, threshold: float
) -> None:
    limited = limit_log_odds(by_people, by_both, calibrated, threshold)

    assert min(by_people, by_both) <= limited <= max(by_people, by_both)
    if logit(calibrated(by_people)) >= logit(threshold) + SPAM_MARGIN and calibrated(by_both) >= threshold:
        assert limited == limit_log_odds(by_people, by_both, calibrated)


@given(st.floats(0, 1))
def test_where_people_alone_settle_a_message_no_verdict_depends_on_the_layer(probability: float) -> None:
    inside = min(max(probability, 1e-12), 1 - 1e-12)
    lowest, highest = (
        sigmoid(limit_log_odds(logit(inside), far, sigmoid, Thresholds().spam)) for far in (-99.0, 99.0)
    )

    if is_settled(inside):
        verdicts = {(p >= Thresholds().unsure, p >= Thresholds().spam) for p in (lowest, inside, highest)}
        assert len(verdicts) == 1
