"""The verdict on a message's header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.policy.header import VERDICT_FIELDS, log_odds, render
from nbstream.policy.verdict import Thresholds, Verdict


def rendered(verdict: Verdict, probability: float) -> dict[str, str]:
    fields = render("abc", verdict, probability, "because", model="default", thresholds=Thresholds())
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
    assert -99.9 <= log_odds(probability) <= 99.9
    assert log_odds(probability) <= log_odds(min(1.0, probability + 0.01))
