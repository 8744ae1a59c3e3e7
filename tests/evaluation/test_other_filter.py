"""The verdict of another filter, from the field that it wrote, beside ours."""

from __future__ import annotations

import pytest

from nbstream.evaluation.other_filter import read_verdict
from nbstream.evaluation.report import OtherFilterReport
from nbstream.evaluation.run import EvaluationOptions, EvaluationRow
from nbstream.evaluation.streams import LabelledContent
from nbstream.policy.verdict import Verdict
from tests.evaluation.test_run import run_over, stream
from tests.letters import letters


@pytest.mark.parametrize(
    ("field", "verdict"),
    [
        ("X-Spam-Status: No, score=-1.9 required=5.0 tests=ALL_TRUSTED", "ham"),
        ("X-Spam-Flag: YES", "spam"),
        ("X-Spamd-Result: default: False [-0.10 / 15.00]; ARC_NA(0.00)[]", "ham"),
        ("X-Rspamd-Action: no action", "ham"),
        ("X-Bogosity: Unsure, tests=bogofilter, spamicity=0.5, version=1.2.5", "unsure"),
        ("X-Spambayes-Classification: spam; 1.00", "spam"),
        ("X-DSPAM-Result: Innocent", "ham"),
        ("X-Spam-Status: perhaps", None),
        ("X-Spam-Status:", None),
        ("X-Spam-Status: No\nX-Spam-Status: Yes", None),
        ("X-Spam-Status: No\nx-spam-status: no", "ham"),
    ],
)
def test_the_first_word_says_the_verdict(field: str, verdict: str | None) -> None:
    message = f"From: a@x.example\n{field}\nX-Other: yes\n\nX-Spam: yes\n".encode()

    assert read_verdict(message, field.partition(":")[0].upper()) == verdict


def test_a_message_without_the_field_has_no_verdict() -> None:
    assert read_verdict(b"From: a@x.example\r\n\r\nX-Spam: yes\r\n", "X-Spam") is None


def test_both_filters_are_measured_on_the_messages_that_both_have_judged() -> None:
    pairs = [
        ("spam", Verdict.SPAM, Verdict.HAM),
        ("spam", Verdict.UNSURE, Verdict.SPAM),
        ("ham", Verdict.HAM, Verdict.SPAM),
        ("ham", Verdict.HAM, Verdict.UNSURE),
        ("ham", Verdict.SPAM, None),
    ]
    rows = [EvaluationRow(label, 0.0, 0.5, ours, other_verdict=theirs) for label, ours, theirs in pairs]

    report = OtherFilterReport.from_rows(rows, "X-Spam-Flag")

    assert report.messages == 4
    assert (report.ours.hm_percent, report.ours.sm_percent, report.ours.unsure_percent) == (0.0, 50.0, 25.0)
    assert (report.theirs.hm_percent, report.theirs.sm_percent, report.theirs.unsure_percent) == (50.0, 50.0, 25.0)
    assert report.to_text().splitlines()[-1].split() == ["X-Spam-Flag", "50.00", "%", "50.00", "%", "25.00", "%"]
    assert "0 with a verdict" in OtherFilterReport.from_rows(rows[4:], "X-Spam-Flag").to_text()


async def test_the_field_is_read_although_the_message_is_scored_without_it() -> None:
    field = b"X-Spam-Status: Yes, score=9\r\n"
    labelled = [LabelledContent(label, field + raw) for label, raw in letters(4)]

    with_field = await run_over(labelled, EvaluationOptions(other_field="X-Spam-Status"))
    without = await run_over(stream(4), EvaluationOptions(other_field="X-Spam-Status"))

    assert {row.other_verdict for row in with_field.rows} == {Verdict.SPAM}
    assert {row.other_verdict for row in without.rows} == {None}
    assert [row.score for row in with_field.rows] == [row.score for row in without.rows]
