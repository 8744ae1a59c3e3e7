"""The verdict on a message's header."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.header import (
    clamped_log_odds,
    comparable_scores,
)
from nbstream.policy.verdict import Thresholds, Verdict


@given(st.floats(0, 1))
def test_the_score_is_finite_and_grows_with_the_probability(probability: float) -> None:
    assert -99.9 <= clamped_log_odds(probability) <= 99.9
    assert clamped_log_odds(probability) <= clamped_log_odds(min(1.0, probability + 0.01))


@given(
    st.floats(0, 1),
    st.floats(0.001, 0.999),
    st.sampled_from(Verdict),
)
def test_a_program_that_compares_the_scores_comes_to_the_verdict(
    probability: float, spam: float, verdict: Verdict
) -> None:
    score, required = comparable_scores(verdict, probability, Thresholds(spam, spam))

    assert (float(f"{score:.1f}") >= float(f"{required:.1f}")) is verdict.is_spam


@pytest.mark.parametrize(
    ("verdict", "probability", "spam", "shown"),
    [
        (Verdict.SPAM, 0.999, 0.95, (6.9, 2.9)),
        (Verdict.HAM, 0.5, 0.95, (0.0, 2.9)),
        (Verdict.UNSURE, 0.9499, 0.95, (2.8, 2.9)),
        (Verdict.UNSURE, 1.0, 0.95, (2.8, 2.9)),  # it still learns
        (Verdict.UNSURE, 1.0, math.inf, (99.8, 99.9)),
        (Verdict.HAM, 0.499, 0.5, (-0.1, 0.0)),
    ],
)
def test_scores_that_are_shown(
    verdict: Verdict, probability: float, spam: float, shown: tuple[float, float]
) -> None:
    assert comparable_scores(verdict, probability, Thresholds(0.01, spam)) == shown
