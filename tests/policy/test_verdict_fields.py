"""The verdict on a message's header."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.verdict import Thresholds, Verdict
from nbstream.policy.verdict_fields import (
    VERDICT_FIELDS,
    clamped_log_odds,
    comparable_scores,
    render_verdict_fields,
)


def rendered(verdict: Verdict, probability: float) -> dict[str, str]:
    fields = render_verdict_fields(
        "abc", verdict, probability, "because", model="default", thresholds=Thresholds()
    )
    assert len(dict(fields)) == len(fields)
    return dict(fields)


def test_spam_is_flagged_as_spamassassin_does() -> None:
    assert rendered(Verdict.SPAM, 0.99) == {
        "X-Spam-Flag": "YES",
        "X-Spam-Status": "Yes, score=4.6 required=2.9",
        "X-Spam-Level": "****",
        "X-Nbstream": 'spam; probability=0.990000; reason="because";\r\n\tmodel=default; id=abc',
    }


@pytest.mark.parametrize("verdict", [Verdict.HAM, Verdict.UNSURE])
def test_what_is_not_spam_has_no_flag(verdict: Verdict) -> None:
    fields = rendered(verdict, 0.3)

    assert "X-Spam-Flag" not in fields
    assert fields["X-Spam-Status"].startswith("No, score=-0.8 ")
    assert fields["X-Spam-Level"] == ""


def test_every_field_that_is_written_is_also_stripped_from_outside() -> None:
    assert set(rendered(Verdict.REJECT, 1.0)) <= set(VERDICT_FIELDS)


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
