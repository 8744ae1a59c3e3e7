"""From a probability to a verdict."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.verdict import ModelState, Thresholds, Verdict, decide_verdict, shorten_probability

READY = ModelState({"ham": 10, "spam": 10}, {"ham": 10, "spam": 10})
LEARNING = ModelState({"ham": 25, "spam": 3}, {"ham": 10, "spam": 10})


@pytest.mark.parametrize(
    ("probability", "verdict"),
    [(0.0, "ham"), (0.4999, "ham"), (0.5, "unsure"), (0.9899, "unsure"), (0.99, "spam"), (0.999, "spam")],
)
def test_a_verdict_holds_from_its_threshold_on(probability: float, verdict: str) -> None:
    assert decide_verdict(probability, Thresholds(), READY)[0] == verdict


def test_while_learning_everything_is_unsure_and_the_reason_says_how_far() -> None:
    assert decide_verdict(0.9999, Thresholds(reject=0.99), LEARNING) == (Verdict.UNSURE, "learning 13/20")


def test_a_model_is_ready_when_each_class_has_what_it_needs() -> None:
    assert not READY.is_learning
    assert str(READY) == "ready"
    assert not ModelState({"ham": 0, "spam": 0}, {"ham": 0, "spam": 0}).is_learning


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_thresholds_out_of_order_are_refused(unsure: float, spam: float, reject: float) -> None:
    if 0 < unsure <= spam <= reject:
        Thresholds(unsure, spam, reject)
    else:
        with pytest.raises(ValueError, match="out of order"):
            Thresholds(unsure, spam, reject)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_higher_probability_never_gets_a_milder_verdict(one: float, other: float) -> None:
    order = list(Verdict)
    low, high = sorted((one, other))
    thresholds = Thresholds(0.3, 0.9, 0.99)

    assert order.index(decide_verdict(low, thresholds, READY)[0]) <= order.index(
        decide_verdict(high, thresholds, READY)[0]
    )


@given(st.floats(0, 1), st.integers(0, 1000))
def test_a_probability_is_shown_on_the_side_of_a_threshold_on_which_it_is(
    probability: float, thousandths: int
) -> None:
    threshold = thousandths / 1000
    assert (float(shorten_probability(probability, 3)) >= threshold) == (probability >= threshold)


def test_what_is_unlike_learned_spam_is_unsure_whatever_the_threshold_for_that() -> None:
    verdict, reason = decide_verdict(0.5, Thresholds(unsure=0.9), READY, 0.9999)

    assert verdict is Verdict.UNSURE
    assert reason.endswith("; unlike learned spam")
