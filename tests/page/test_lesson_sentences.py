"""``nbstream.page.lesson_sentences``."""

from __future__ import annotations

import pytest

from nbstream.filter import Check, Contradiction, Lesson, LessonOutcome
from nbstream.page.lesson_sentences import describe_lesson
from nbstream.policy.verdict import ModelState, Thresholds, Verdict


def check(probability: float, verdict: Verdict) -> Check:
    return Check("key", verdict, probability, 0.0, "", ModelState({"ham": 9, "spam": 9}), (), Thresholds())


BEFORE, AFTER = check(0.41, Verdict.UNSURE), check(0.99952, Verdict.SPAM)


@pytest.mark.parametrize(
    ("lesson", "sentences"),
    [
        (
            Lesson(LessonOutcome.LEARNED, "spam", BEFORE, AFTER),
            "The message was learned as spam. "
            "P(spam) was 0.410 and is 0.9995 now; the verdict was unsure and is spam now.",
        ),
        (
            Lesson(LessonOutcome.UNLEARNED, "ham", BEFORE, BEFORE),
            "The lesson was taken back: the message was learned as ham. "
            "P(spam) was 0.410 and is 0.410 now; the verdict is still unsure.",
        ),
        (
            Lesson(LessonOutcome.UNKNOWN, None, BEFORE, BEFORE).with_withdrawn_label("ham"),
            "What was learned automatically was taken back: the message was learned as ham. "
            "P(spam) was 0.410 and is 0.410 now; the verdict is still unsure.",
        ),
        (
            Lesson(
                LessonOutcome.ALREADY, "ham", AFTER, AFTER, Contradiction(has_most_weight=False, wait_seconds=None)
            ),
            "Nothing was learned: the message is learned as ham already. The verdict still contradicts the label "
            "ham. If you are sure, insist with the button of the message.",
        ),
        (
            Lesson(LessonOutcome.UNKNOWN, None, BEFORE, BEFORE),
            "Nothing was taken back: the message is not learned, or its lesson is forgotten (model.ledger_days).",
        ),
    ],
)
def test_a_lesson_says_in_sentences_what_it_changed_and_what_to_do(lesson: Lesson, sentences: str) -> None:
    assert describe_lesson(lesson) == sentences
