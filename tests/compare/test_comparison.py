"""Errors are counted in pairs, and the report says in words which of them may be believed."""

from __future__ import annotations

import json
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.compare.comparison import PairedErrors, count_errors, filter_verdict
from nbstream.compare.fields import FilterVerdict
from nbstream.compare.report import (
    DifferingMessage,
    closing_sentence,
    day_of,
    render_json,
    render_text,
    trust_notes,
)
from tests.compare.judged import EXAMPLE, comparison, judged


def test_errors_are_counted_for_each_class_of_each_filter_and_of_both() -> None:
    assert count_errors(comparison(*EXAMPLE).messages) == {
        "ham": PairedErrors(800, both=1, only_ours=0, only_other=3),
        "spam": PairedErrors(404, both=29, only_ours=2, only_other=26),
    }


def test_a_spam_of_which_a_filter_is_unsure_has_passed_and_such_a_ham_is_not_lost() -> None:
    errors = count_errors(
        [judged(1, FilterVerdict.UNSURE, FilterVerdict.UNSURE, label) for label in ("ham", "spam")]
    )
    assert (errors["ham"].ours, errors["spam"].ours) == (0, 1)
    assert filter_verdict("reject") is FilterVerdict.SPAM


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_p_value_is_that_of_mcnemars_exact_test(only_ours: int, only_other: int) -> None:
    alone, fewer = only_ours + only_other, min(only_ours, only_other)
    exact = min(1.0, 2 * sum(comb(alone, k) for k in range(fewer + 1)) / 2**alone)
    assert PairedErrors(100, 0, only_ours, only_other).p_value == pytest.approx(exact)


def test_the_report_ends_with_one_sentence() -> None:
    last = render_text(comparison(*EXAMPLE), []).split("\n\n")[-1]
    assert last == (
        "On 1,204 labelled messages nbstream would have lost 1 ham instead of 4 and passed 31 spam instead of 55."
    )
    acting = closing_sentence(comparison(*EXAMPLE, we_act=True))
    assert "has lost 1 ham where rspamd would have lost 4" in acting


def test_the_report_has_a_table_of_verdicts_and_both_errors_with_intervals() -> None:
    lines = render_text(comparison(*EXAMPLE), []).splitlines()
    assert lines[0].startswith("1,244 messages that nbstream and rspamd have judged, 2026-11-1")
    rows = {line[:15].strip(): line.split()[2:] for line in lines if line.startswith("  nbstream ")}
    assert rows["nbstream ham"] == ["796", "0", "5"]
    assert rows["nbstream spam"] == ["66", "0", "348"]
    (lost,) = [line for line in lines if "ham called spam" in line]
    assert "4 = 0.50 % (0.19 to 1.28)" in lost
    assert "1 = 0.12 % (0.02 to 0.70)" in lost
    assert lost.split()[-3:] == ["3", "0", "0.25"]
    assert "left out: 3 without a verdict of rspamd" in lines


def test_labels_of_errors_only_favour_the_filter_that_does_not_act() -> None:
    """Who corrects what rspamd filed sees none of the errors of the other one."""
    only_errors = comparison(
        (10, FilterVerdict.HAM, FilterVerdict.SPAM, "ham"), (90, FilterVerdict.HAM, FilterVerdict.HAM, None)
    )
    assert "10 correct rspamd, and 0 agree with it" in "\n".join(trust_notes(only_errors))
    assert "This favours nbstream." in "\n".join(trust_notes(only_errors))
    ours = comparison(
        (10, FilterVerdict.SPAM, FilterVerdict.HAM, "ham"),
        (90, FilterVerdict.HAM, FilterVerdict.HAM, None),
        we_act=True,
    )
    assert "This favours rspamd." in "\n".join(trust_notes(ours))
    assert "90 of 100 messages have no label" in "\n".join(trust_notes(only_errors))


def test_labels_that_agree_favour_the_filter_that_filed_the_mail() -> None:
    filed = comparison(
        (2, FilterVerdict.HAM, FilterVerdict.SPAM, "ham"), (90, FilterVerdict.HAM, FilterVerdict.HAM, "ham")
    )
    assert "This favours rspamd." in "\n".join(trust_notes(filed))


def test_the_fair_sample_is_reported_apart_and_asked_for_where_it_is_missing() -> None:
    assert "ask: {share: 0.02}" in "\n".join(trust_notes(comparison(*EXAMPLE)))

    sampled = comparison(
        (20, FilterVerdict.HAM, FilterVerdict.SPAM, "ham"),
        (80, FilterVerdict.HAM, FilterVerdict.HAM, "ham"),
        drawn=50,
    )
    assert "believe it first. 50 of 50 drawn messages have a label" in "\n".join(trust_notes(sampled))
    assert "\nOn 50 messages of the fair sample nbstream would have lost 0 ham instead of 20" in closing_sentence(
        sampled
    )
    assert "Of 50 other labels 0 correct rspamd" in "\n".join(trust_notes(sampled))
    assert "\nfair sample: 50 ham\n" in render_text(sampled, [])


def test_a_fair_sample_in_which_people_have_only_corrected_errors_is_not_believed() -> None:
    corrected = comparison(
        (5, FilterVerdict.HAM, FilterVerdict.SPAM, "ham"),
        (45, FilterVerdict.HAM, FilterVerdict.HAM, None),
        drawn=50,
    )
    assert "too few answers (5 of 50 drawn" in "\n".join(trust_notes(corrected))
    assert "\nfair sample" not in render_text(corrected, [])
    assert "fair sample" not in closing_sentence(corrected)


def test_messages_on_which_they_differ_come_with_their_clues_and_cannot_move_the_cursor() -> None:
    both = comparison(*EXAMPLE)
    assert [message.label for message in both.differing[:3]] == ["ham"] * 3
    assert len(both.differing) == 3 + 2 + 26 + 40

    hostile = judged(1, FilterVerdict.HAM, FilterVerdict.SPAM, "ham", subject="free\x1b[2J\u202eprize\n")
    text = render_text(both, [DifferingMessage(hostile, [("subject:\x1b", 2.5), ("lunch", -4.0)])])
    assert not {"\x1b", "\u202e"} & set(text)
    assert f"{hostile.id}  is ham    nbstream ham 0.0100  rspamd spam 7.25  free" in text
    assert "lunch -4.0" in text


def test_nothing_judged_and_nothing_labelled_are_said_in_words() -> None:
    assert render_text(comparison(), []).startswith("There is no message")
    unlabelled = render_text(comparison((2, FilterVerdict.HAM, FilterVerdict.SPAM, None)), [])
    assert unlabelled.endswith("nobody knows who is right.")
    assert "ham called spam" not in unlabelled


def test_json_has_the_same_figures_by_day() -> None:
    both = comparison(*EXAMPLE)
    report = json.loads(render_json(both, [DifferingMessage(both.differing[0])]))
    assert report["labelled"]["spam"]["ours"] == 31
    assert report["labelled"]["spam"]["other"] == 55
    assert report["table"]["spam"]["ham"] == 66
    assert sum(day["spam"]["other"] for day in report["days"].values()) == 55
    assert next(iter(report["days"])) == day_of(both.messages[0].checked_at)
    assert report["summary"] == closing_sentence(both)
    assert report["shown"][0]["id"] == both.differing[0].id
    assert json.loads(render_json(comparison(), []))["messages"] == 0


def test_the_picture_sums_up_the_errors_of_both_over_the_days() -> None:
    pytest.importorskip("matplotlib")
    from nbstream.compare.plots import comparison_figure  # noqa: PLC0415 - matplotlib is an extra

    ham, spam = comparison_figure(comparison(*EXAMPLE)).axes
    assert {str(line.get_label()): line.get_ydata()[-1] for line in ham.lines} == {"rspamd": 4, "nbstream": 1}  # type: ignore[index]
    assert {str(line.get_label()): line.get_ydata()[-1] for line in spam.lines} == {"rspamd": 55, "nbstream": 31}  # type: ignore[index]
    comparison_figure(comparison())
