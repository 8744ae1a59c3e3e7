"""What the history of a message may say, given what its teacher was told."""

from __future__ import annotations

import pytest

from tests.soak.chaos.journal import Fault, FeedbackOutcome, LessonAttempt
from tests.soak.chaos.lesson_history import Label, counts_agree, explains, losing_spans, without_lost_answers
from tests.soak.chaos.schedule import Kind

CHANGED, SAME, DONE, UNKNOWN, NOT_SENT = FeedbackOutcome
LOST_REPLIES = Fault(Kind.LOSE_REPLIES, "a", 1.0, 2.0)


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


def test_an_entry_of_a_stream_may_be_carried_out_by_each_try() -> None:
    answers = attempts(("spam", UNKNOWN), ("ham", CHANGED), ("ham", CHANGED), tries=2)

    assert explains(answers, ["spam", "ham", "spam", "ham"])
    assert not explains(answers, ["spam", "ham", "spam", "ham", "spam"])


def test_of_attempts_at_once_only_the_numbers_are_known() -> None:
    answers = attempts(("spam", CHANGED), ("ham", CHANGED), ("spam", UNKNOWN), ("ham", SAME))

    assert counts_agree(answers, ["ham", "spam"], [])
    assert counts_agree(answers, ["spam", "ham", "spam"], [])
    assert not counts_agree(answers, ["spam"], [])
    # of one attempt, repeated after another's word
    assert counts_agree(answers, ["spam", "ham", "spam", "spam"], [])
    assert not counts_agree(answers, ["spam", "ham", "ham"], [])
    assert not counts_agree(answers, ["spam", "ham", None], [])


@pytest.mark.parametrize("outcome", [SAME, CHANGED])
def test_an_answered_attempt_may_be_repeated_where_a_reply_of_redis_was_lost(outcome: FeedbackOutcome) -> None:
    told = attempts(("spam", outcome), begun=0.5, ended=1.5) + attempts(("ham", CHANGED), ("spam", CHANGED))
    own = ["spam"] if outcome is CHANGED else []

    assert counts_agree(told, ["spam", "ham", "spam", *own], [LOST_REPLIES])
    assert counts_agree(told, ["ham", "spam", *own], [LOST_REPLIES])
    assert not counts_agree(told, ["spam", "ham", "spam", "spam", *own], [LOST_REPLIES])
    assert not counts_agree(told, ["spam", "ham", "spam", "ham", *own], [LOST_REPLIES])  # by nobody who was hit


@pytest.mark.parametrize(
    ("fault", "may_be_repeated"),
    [
        (LOST_REPLIES, True),
        (Fault(Kind.CUT_REPLIES, "a", 5.0, 6.0), True),  # begun as the attempt ended
        (Fault(Kind.CUT_REPLIES, "a", 5.1, 6.0), False),
        (Fault(Kind.CUT_REPLIES, "a", 0.0, 0.4), False),
        (Fault(Kind.CUT_REPLIES, "b", 1.0, 2.0), False),  # of the other host
        (Fault(Kind.STOP_REDIS, "redis", 1.0, 2.0), True),
        (Fault(Kind.FLUSH_SCRIPTS, "redis", 1.0, 2.0), False),  # each request is answered
        (Fault(Kind.STOP_WORKER, "a", 1.0, 4.0), True),  # its deadlines pass meanwhile
        (Fault(Kind.STOP_WORKER, "b", 1.0, 4.0), False),
        (Fault(Kind.HOP_HANGS, "hop", 1.0, 2.0), False),
    ],
)
def test_which_faults_lose_a_reply_of_redis(fault: Fault, *, may_be_repeated: bool) -> None:
    told = [
        *attempts(("spam", SAME), begun=0.5, ended=5.0),
        *attempts(("ham", CHANGED), ("spam", CHANGED), begun=0.5, ended=5.0, host="c"),
    ]

    assert counts_agree(told, ["spam", "ham", "spam"], [fault]) is may_be_repeated


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
