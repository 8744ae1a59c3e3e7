"""What the history of a message may say, given what its teacher was told."""

from __future__ import annotations

import pytest

from tests.soak.chaos.journal import LessonAttempt, LessonOutcome
from tests.soak.chaos.lesson_history import Label, counts_agree, explains, last_word_holds

CHANGED, SAME, DONE, UNKNOWN, NOT_SENT = LessonOutcome


def attempts(*answers: tuple[Label, LessonOutcome], tries: int = 1) -> list[LessonAttempt]:
    return [LessonAttempt("key", label, "test", 0.0, 0.0, outcome, "", tries) for label, outcome in answers]


@pytest.mark.parametrize(
    ("answers", "records"),
    [
        ([], []),
        ([("spam", CHANGED)], ["spam"]),
        ([("spam", CHANGED), ("spam", SAME), ("ham", CHANGED), (None, CHANGED)], ["spam", "ham", None]),
        ([(None, SAME)], []),
        ([("spam", UNKNOWN)], []),
        ([("spam", UNKNOWN)], ["spam"]),
        ([("spam", UNKNOWN), ("spam", SAME)], ["spam"]),
        ([("spam", UNKNOWN), ("ham", CHANGED)], ["ham"]),
        ([("spam", UNKNOWN), ("ham", CHANGED)], ["spam", "ham"]),
        ([("spam", UNKNOWN), ("ham", CHANGED)], ["ham", "spam"]),  # carried out late
        ([("spam", DONE)], ["spam"]),
        ([("spam", CHANGED), ("ham", NOT_SENT)], ["spam"]),
        ([("spam", CHANGED), ("spam", DONE)], ["spam"]),
        ([("spam", UNKNOWN), ("spam", UNKNOWN), ("ham", CHANGED)], ["spam", "ham", "spam"]),
    ],
)
def test_what_follows_from_the_answers(answers: list[tuple[Label, LessonOutcome]], records: list[Label]) -> None:
    assert explains(attempts(*answers), records)


@pytest.mark.parametrize(
    ("answers", "records"),
    [
        ([("spam", CHANGED)], []),  # lost
        ([("spam", CHANGED)], ["spam", "spam"]),  # doubled
        ([("spam", CHANGED), ("ham", CHANGED)], ["ham", "spam"]),  # another order
        ([("spam", SAME)], []),
        ([("spam", SAME)], ["spam"]),  # it was a change
        ([(None, CHANGED)], []),
        ([], ["spam"]),  # nobody taught it
        ([("spam", UNKNOWN)], ["spam", "spam"]),
        ([("spam", UNKNOWN)], ["ham"]),
        ([("ham", CHANGED), ("spam", UNKNOWN)], ["spam", "ham"]),  # before it was sent
        ([("spam", DONE)], []),
        ([("spam", NOT_SENT)], ["spam"]),
        ([("spam", CHANGED), (None, UNKNOWN), ("spam", SAME)], ["spam", None, None]),
    ],
)
def test_what_does_not(answers: list[tuple[Label, LessonOutcome]], records: list[Label]) -> None:
    assert not explains(attempts(*answers), records)


def test_an_entry_of_a_stream_may_be_carried_out_by_each_try() -> None:
    answers = attempts(("spam", UNKNOWN), ("ham", CHANGED), ("ham", CHANGED), tries=2)

    assert explains(answers, ["spam", "ham", "spam", "ham"])
    assert not explains(answers, ["spam", "ham", "spam", "ham", "spam"])


def test_of_attempts_at_once_only_the_numbers_are_known() -> None:
    answers = attempts(("spam", CHANGED), ("ham", CHANGED), ("spam", UNKNOWN), ("ham", SAME))

    assert counts_agree(answers, ["ham", "spam"])
    assert counts_agree(answers, ["spam", "ham", "spam"])
    assert not counts_agree(answers, ["spam"])
    assert counts_agree(answers, ["spam", "ham", "spam", "spam"])  # of one attempt, repeated after another's word
    assert not counts_agree(answers, ["spam", "ham", "ham"])
    assert not counts_agree(answers, ["spam", "ham", None])


def test_where_records_can_be_lost_the_last_word_holds() -> None:
    answers = attempts(("spam", CHANGED), ("ham", DONE))

    assert last_word_holds(answers, "ham")
    assert not last_word_holds(answers, "spam")
    assert not last_word_holds(answers, None)
    assert last_word_holds(attempts(("spam", UNKNOWN), ("ham", CHANGED)), "spam")
    assert last_word_holds([], None)
