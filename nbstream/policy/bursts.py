"""Bursts of feedback from one actor that look like a mistake or an attack. Each burst is reported once.

Rules: pure, the time is an argument. Memory is bounded, however many actors there are. Nothing is refused because
of a burst: a person may well have a folder of spam to teach. A burst is a reason to look at the history, and undo
is the remedy.

The last lessons of an actor within ``WINDOW_SECONDS`` are judged by two signs. They are ``contradicting`` where
many labels are the opposite of what a confident model said. They are ``one_sided`` where nearly all labels are the
same, for example because a rule forwards a whole mailbox. A model that is still learning is taught in bulk, class
by class, and is confident of nothing. Therefore there are no bursts until the model decides.

How well the first sign separates was measured. With a model that has learned 2,000 right labels, 59 or 60 of 60
wrong labels in a row contradict it; with a model that has learned 300, 15 to 28 do. Of 800 right labels one
contradicts the model (see docs/experiments.md).

Bursts that are slower, or shared among many actors, are not seen here; ``nbstream_feedback_disagreement_total``
shows these. Behind a mail server that does not say whose mail it is (XFORWARD) all people are one actor, and the
signs may be those of many people together.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.policy.lesson_source import LessonSource

WINDOW_SECONDS = 600.0
"""The lessons of this last time are judged. The same time without a sign ends a burst."""

MIN_CONTRADICTIONS = 10
"""This many labels against a confident verdict, among at most twice as many lessons, are a burst."""

CONFIDENT_PROBABILITY = 0.95
"""A verdict is confident where the probability of its class is at least this."""

ONE_SIDED_LESSONS = 100
"""This many lessons are a burst if all but ``MAX_OTHER_LABELS`` of them have the same label."""

MAX_OTHER_LABELS = 5

_MAX_ACTORS = 1000  # 100 lessons of 90 bytes each: 9 MB at most


class BurstKind(StrEnum):
    """The sign by which a burst is seen."""

    CONTRADICTING = "contradicting"
    ONE_SIDED = "one_sided"


@dataclass(frozen=True, slots=True)
class _RecentLesson:
    at: float
    label: str
    contradicts: bool


@dataclass(slots=True)
class _ActorLessons:
    """The last lessons of one actor, oldest first, and the time at which each sign was last seen."""

    lessons: deque[_RecentLesson] = field(default_factory=lambda: deque(maxlen=ONE_SIDED_LESSONS))
    last_seen: dict[BurstKind, float] = field(default_factory=dict)


class BurstDetector:
    """Remembers the last hundred lessons of each of the last thousand actors, and finds bursts among them."""

    def __init__(self) -> None:
        self._actors: OrderedDict[LessonSource, _ActorLessons] = OrderedDict()

    def add_lesson(
        self, now: float, lesson_source: LessonSource, label: str, verdict: Verdict, probability: float
    ) -> list[BurstKind]:
        """Return the kinds of bursts that begin with this lesson, without those that go on.

        ``now`` is in seconds and never decreases. The verdict and P(spam) are those before the lesson, of a model
        that has learned enough to decide.
        """
        actor = self._actors.setdefault(lesson_source, _ActorLessons())
        self._actors.move_to_end(lesson_source)
        if len(self._actors) > _MAX_ACTORS:
            self._actors.popitem(last=False)
        actor.lessons.append(_RecentLesson(now, label, contradicts_confident_verdict(label, verdict, probability)))
        recent = [lesson for lesson in actor.lessons if now - lesson.at <= WINDOW_SECONDS]
        begun = []
        for kind in _burst_kinds(recent):
            if now - actor.last_seen.get(kind, -WINDOW_SECONDS * 2) > WINDOW_SECONDS:
                begun.append(kind)
            actor.last_seen[kind] = now
        return begun


def contradicts_confident_verdict(label: str, verdict: Verdict, probability: float) -> bool:
    """Whether a label is the opposite of a confident verdict."""
    if verdict is Verdict.UNSURE:
        return False
    return probability >= CONFIDENT_PROBABILITY if label == "ham" else probability <= 1 - CONFIDENT_PROBABILITY


def _burst_kinds(recent: Sequence[_RecentLesson]) -> list[BurstKind]:
    signs = []
    if sum(lesson.contradicts for lesson in recent[-2 * MIN_CONTRADICTIONS :]) >= MIN_CONTRADICTIONS:
        signs.append(BurstKind.CONTRADICTING)
    spam = sum(lesson.label == "spam" for lesson in recent)
    if len(recent) >= ONE_SIDED_LESSONS and min(spam, len(recent) - spam) <= MAX_OTHER_LABELS:
        signs.append(BurstKind.ONE_SIDED)
    return signs
