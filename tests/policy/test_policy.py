"""From the configuration's forms of a threshold to the thresholds of a moment."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.thresholds import (
    PrequentialScore,
    PrequentialScores,
    ThresholdPolicy,
)
from nbstream.policy.verdict import ModelState, Verdict, decide_verdict

READY = ModelState({"ham": 10, "spam": 10}, {"ham": 10, "spam": 10})


def prequential_scores(*probabilities: float) -> PrequentialScores:
    scores = PrequentialScores()
    for index, probability in enumerate(probabilities):
        scores["ham"].add(PrequentialScore(float(index), f"m{index}", probability).pack())
    return scores


def test_until_a_budget_is_guaranteed_a_fixed_threshold_holds() -> None:
    thresholds = ThresholdPolicy(spam=0.97, max_false_positive_rate=0.01).thresholds(prequential_scores(0.1, 0.2))

    assert not thresholds.guaranteed
    assert decide_verdict(0.96, thresholds, READY)[0] is Verdict.UNSURE
    assert decide_verdict(0.98, thresholds, READY) == (
        Verdict.SPAM,
        "probability >= 0.97 (spam); needs 297 more ham to guarantee 1 %",
    )


def test_where_only_errors_are_labelled_the_fixed_threshold_holds_and_that_is_said() -> None:
    policy = ThresholdPolicy(spam=0.97, reject=0.98, max_false_positive_rate=0.01)
    thresholds = policy.thresholds(prequential_scores(*[0.2] * 600, *[0.8] * 200))

    assert not thresholds.guaranteed
    assert (thresholds.spam, thresholds.reject) == (0.97, 0.98)
    assert decide_verdict(0.97, thresholds, READY) == (
        Verdict.SPAM,
        "probability >= 0.97 (spam); only errors are labelled, 1 % is not guaranteed",
    )


def test_a_guaranteed_budget_decides_and_says_so() -> None:
    thresholds = ThresholdPolicy(max_false_positive_rate=0.01).thresholds(prequential_scores(*[0.2] * 298, 0.75))

    assert thresholds.guaranteed
    assert decide_verdict(0.75, thresholds, READY)[0] is Verdict.UNSURE
    assert decide_verdict(0.76, thresholds, READY) == (
        Verdict.SPAM,
        "probability >= 0.75 (spam); guaranteed 1 %",
    )


def test_a_budget_below_unsure_leaves_nothing_unsure() -> None:
    thresholds = ThresholdPolicy(max_false_positive_rate=0.01).thresholds(prequential_scores(*[0.2] * 299))

    assert decide_verdict(0.21, thresholds, READY)[0] is Verdict.SPAM
    assert decide_verdict(0.2, thresholds, READY)[0] is Verdict.HAM


def test_nothing_is_refused_below_the_threshold_of_a_budget() -> None:
    policy = ThresholdPolicy(spam=0.5, reject=0.6, max_false_positive_rate=0.01)

    thresholds = policy.thresholds(prequential_scores(*[0.2] * 298, 0.75, 0.76, 0.77, 0.78))

    assert thresholds.reject == thresholds.spam > 0.77


@given(
    st.floats(0.5, 1) | st.just(math.inf),
    st.none() | st.floats(0.5, 1),
    st.none() | st.floats(0.01, 0.5),
    st.lists(st.floats(0, 1), max_size=80),
)
def test_thresholds_are_in_order_for_any_prequential_scores(
    spam: float, reject: float | None, rate: float | None, ham: list[float]
) -> None:
    policy = ThresholdPolicy(0.5, spam, reject, rate)

    policy.thresholds(prequential_scores(*ham))  # Thresholds refuses others
