"""What the history of a message may say, given what its teacher was told."""

from __future__ import annotations

import pytest

from tests.soak.chaos.journal import FeedbackOutcome, LessonAttempt
from tests.soak.chaos.lesson_history import Label, explains

CHANGED, SAME, DONE, UNKNOWN, NOT_SENT = FeedbackOutcome


def attempts(*answers: tuple[Label, FeedbackOutcome]) -> list[LessonAttempt]:
    return [LessonAttempt("key", label, "test", 0.0, 0.0, outcome, "") for label, outcome in answers]


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
def test_what_follows_from_the_answers(answers: list[tuple[Label, FeedbackOutcome]], records: list[Label]) -> None:
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
def test_what_does_not(answers: list[tuple[Label, FeedbackOutcome]], records: list[Label]) -> None:
    assert not explains(attempts(*answers), records)
