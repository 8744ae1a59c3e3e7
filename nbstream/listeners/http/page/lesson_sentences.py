"""A lesson in the sentences of the page: what it changed, and what to do if the verdict contradicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.filter import LessonOutcome
from nbstream.listeners.http.page.rendering import format_probability
from nbstream.listeners.http.page.texts import text

if TYPE_CHECKING:
    from nbstream.filter import Check, Lesson

_UNCHANGED = frozenset({LessonOutcome.ALREADY, LessonOutcome.UNKNOWN})


def describe_lesson(lesson: Lesson) -> str:
    """Return what a lesson changed, and whether the verdict still contradicts it; the view shows why."""
    key = "unlearned_automatic" if lesson.was_automatic else lesson.outcome
    sentences = [text(f"lesson.{key}", label=lesson.label)]
    if lesson.outcome not in _UNCHANGED:
        sentences.append(_describe_change(lesson.before, lesson.after))
    if lesson.contradiction is not None:
        key = "has_most_weight" if lesson.contradiction.has_most_weight else "still_contradicts"
        sentences.append(text(f"lesson.{key}", label=lesson.label))
    return " ".join(sentences)


def _describe_change(before: Check, after: Check) -> str:
    numbers = {"before": format_probability(before.probability), "after": format_probability(after.probability)}
    if before.verdict is after.verdict:
        return text("lesson.same_verdict", **numbers, verdict=after.verdict)
    return text("lesson.other_verdict", **numbers, verdict_before=before.verdict, verdict=after.verdict)
