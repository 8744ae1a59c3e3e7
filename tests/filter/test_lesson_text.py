"""What feedback answers."""

from __future__ import annotations

import pytest

from nbstream.filter import Check, Lesson, LessonOutcome, describe_lesson, describe_lessons
from nbstream.policy.verdict import ModelState, Thresholds, Verdict


def check(probability: float, verdict: Verdict, ham: int = 180) -> Check:
    state = ModelState({"ham": ham, "spam": 300}, {"ham": 200, "spam": 200})
    return Check("key", verdict, probability, 0.0, "", state, (), Thresholds())


BEFORE, AFTER = check(0.41, Verdict.UNSURE), check(0.93, Verdict.SPAM)


@pytest.mark.parametrize(
    ("lesson", "text"),
    [
        (
            Lesson(LessonOutcome.LEARNED, "spam", BEFORE, AFTER),
            "learned as spam: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known",
        ),
        (
            Lesson(LessonOutcome.RELEARNED, "spam", BEFORE, AFTER),
            "relearned as spam, was learned as ham: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known",
        ),
        (
            Lesson(LessonOutcome.ALREADY, "spam", AFTER, AFTER),
            "already learned as spam, nothing changed: P 0.93, spam; ham 180/200 known",
        ),
        (
            Lesson(LessonOutcome.UNLEARNED, "ham", BEFORE, check(0.9951, Verdict.UNSURE)),
            "unlearned, was learned as ham: P 0.41 -> 0.9951, still unsure; ham 180/200 known",
        ),
        (
            Lesson(LessonOutcome.UNKNOWN, None, BEFORE, BEFORE),
            "unknown, nothing changed: it was never learned, or so long ago that this is forgotten",
        ),
    ],
)
def test_a_lesson_says_what_changed(lesson: Lesson, text: str) -> None:
    assert describe_lesson(lesson) == text


def test_a_ready_model_shows_its_message_counts() -> None:
    lesson = Lesson(LessonOutcome.LEARNED, "ham", check(0.41, Verdict.UNSURE), check(0.0049, Verdict.HAM, ham=200))

    assert (
        describe_lesson(lesson) == "learned as ham: P 0.41 -> 0.0049, was unsure, now ham; ham 200, spam 300 known"
    )


def test_all_missing_messages_are_named() -> None:
    state = ModelState({"ham": 0, "spam": 1}, {"ham": 5, "spam": 7})
    empty = Check("key", Verdict.UNSURE, 0.5, 0.0, "", state, (), Thresholds())

    assert describe_lesson(Lesson(LessonOutcome.LEARNED, "spam", empty, empty)).endswith(
        "; ham 0/5, spam 1/7 known"
    )


def test_many_lessons_are_counted() -> None:
    lessons = [
        Lesson(outcome, "spam", BEFORE, AFTER)
        for outcome in (LessonOutcome.LEARNED, LessonOutcome.LEARNED, LessonOutcome.ALREADY)
    ]

    assert describe_lessons(lessons) == "1 already, 2 learned; ham 180/200 known"
