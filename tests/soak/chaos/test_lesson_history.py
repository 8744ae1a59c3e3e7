"""What the history of a message may say, given what its teacher was told."""

from __future__ import annotations

import pytest

from tests.soak.chaos.journal import Fault, FeedbackOutcome, LessonAttempt
from tests.soak.chaos.lesson_history import Label, explains, losing_spans, without_lost_answers
from tests.soak.chaos.schedule import Kind

CHANGED, SAME, DONE, UNKNOWN, NOT_SENT = FeedbackOutcome


def attempts(
    *answers: tuple[Label, FeedbackOutcome],
    tries: int = 1,
    begun: float = 0.0,
    ended: float = 0.0,
    host: str = "a",
) -> list[LessonAttempt]:
    return [
        LessonAttempt("key", label, "test", begun, ended, outcome, "", tries, host) for label, outcome in answers
    ]


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


def test_what_was_acknowledged_in_a_failover_may_be_lost_and_nothing_else() -> None:
    faults = [
        Fault(Kind.STOP_REPLICA, "redis", 10.0, 14.0),
        Fault(Kind.LOSE_PRIMARY, "redis", 13.0, 20.0),
        Fault(Kind.STOP_REPLICA, "redis", 30.0, 34.0),  # nobody takes over
        Fault(Kind.KILL_REDIS, "redis", 40.0, 44.0),  # its file has all
    ]
    spans = losing_spans(faults)
    assert spans == [(8.0, 20.0)]

    def told(begun: float) -> list[LessonAttempt]:
        answers = attempts(("spam", CHANGED), begun=begun, ended=begun + 0.5)
        return without_lost_answers(answers, spans)

    assert [explains(told(begun), []) for begun in (7.0, 7.6, 13.0, 19.9, 20.1, 31.0)] == [
        False,
        True,
        True,
        True,
        False,
        False,
    ]
    assert explains(told(13.0), ["spam"])
    assert not explains(told(13.0), ["ham"])
