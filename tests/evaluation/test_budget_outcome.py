"""The outcome of a budget, counted from its guarantee on."""

from __future__ import annotations

import math

import pytest

from nbstream.evaluation.report import budget_outcome, threshold_path
from nbstream.evaluation.run import EvaluationRow
from nbstream.policy.verdict import Thresholds, Verdict

GUARANTEED = Thresholds(0.5, 0.8, guaranteed=True)
NOT_YET = Thresholds(0.5, math.inf)


def row(label: str, probability: float, thresholds: Thresholds = GUARANTEED) -> EvaluationRow:
    verdict = Verdict.SPAM if probability >= thresholds.spam else Verdict.UNSURE
    return EvaluationRow(label, 0.0, probability, verdict, thresholds)


def test_messages_before_the_guarantee_do_not_count() -> None:
    rows = [
        row("ham", 0.9, NOT_YET),
        row("spam", 0.9, NOT_YET),
        row("ham", 0.9),
        row("ham", 0.1),
        row("spam", 0.7),
    ]

    outcome = budget_outcome(rows, 0.5)

    assert (outcome.since, outcome.ham, outcome.ham_lost, outcome.realised) == (3, 2, 1, 0.5)
    assert outcome.p_value == pytest.approx(0.75)
    assert outcome.spam_missed == 1.0
    assert outcome.spam_missed_best == 0.0  # from 0.1 on one of two ham is lost
    assert "guaranteed from message 3 on, lost 1 of 2 ham, 50.000 %" in outcome.to_text()


def test_a_guarantee_that_lapses_still_counts() -> None:
    assert budget_outcome([row("ham", 0.1), row("ham", 0.9, NOT_YET)], 0.5).ham == 2


def test_a_budget_that_was_never_guaranteed_says_so() -> None:
    outcome = budget_outcome([row("ham", 0.9, NOT_YET)], 0.01)

    assert (outcome.since, outcome.ham, outcome.ham_lost, outcome.realised, outcome.p_value) == (
        None,
        1,
        0,
        0.0,
        None,
    )
    assert outcome.to_text() == "budget of 1 % of the ham: was never guaranteed; 0 of 1 were lost all the same"
    assert budget_outcome([], 0.01).to_text() == "budget of 1 % of the ham: was never guaranteed"


@pytest.mark.parametrize(("lost", "p_value"), [(0, 1.0), (1, 1 - 0.9**3), (3, 0.001)])
def test_the_p_value_is_the_probability_of_that_many_or_more(lost: int, p_value: float) -> None:
    rows = [row("ham", 0.9 if index < lost else 0.1) for index in range(3)]

    assert budget_outcome(rows, 0.1).p_value == pytest.approx(p_value)


def test_the_path_has_every_thousandth_message_and_null_for_never() -> None:
    rows = [row("ham", 0.1, NOT_YET)] * 1500 + [row("ham", 0.1)] * 500

    assert threshold_path(rows) == [
        {"message": 1000, "unsure": 0.5, "spam": None, "reject": None},
        {"message": 2000, "unsure": 0.5, "spam": 0.8, "reject": None},
    ]
