"""Bursts of feedback from one actor that look like a mistake or an attack, told once each.

Rules: pure, the time is handed in; memory is bounded, whoever comes. Nothing is refused for a burst: a person may
well have a folder of spam to teach. It is a reason to look at the history, and undo is the remedy.

An actor's last lessons within ``WINDOW_SECONDS`` are judged by two signs. They are ``contradicting`` where many
labels are the opposite of what a confident model said, ``one_sided`` where nearly all labels are the same: so
does a rule that forwards a whole mailbox. A model that is still learning is taught in bulk, class by class, and
is confident of nothing, so until it decides there are no bursts.

Of 60 wrong labels in a row after 2,000 right ones of trec07p, 59 or 60 contradict, whether ham, spam or both are
wrong; after only 300 right ones 15 to 28, 10 of them among the first 20: the model soon believes the wrong
labels, and then they contradict no more. Of 800 right labels one did.

Unseen are bursts slower than that or shared among many actors; ``nbstream_feedback_disagreement_total`` shows
those. Behind a mail server that does not say whose mail it is (XFORWARD) everybody is one actor, and the signs may
be those of many together.
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
"""So recent are the lessons that are judged; so long without a sign ends a burst."""

MIN_CONTRADICTIONS = 10
"""So many labels against a confident verdict, among twice as many lessons at most, are a burst."""

CONFIDENT_PROBABILITY = 0.95
"""A verdict is confident where P of its class is at least this."""

ONE_SIDED_LESSONS = 100
"""So many lessons of which all but ``MAX_OTHER_LABELS`` have the same label are a burst."""

MAX_OTHER_LABELS = 5

_MAX_ACTORS = 1000  # 100 lessons of 90 bytes each: 9 MB at most


class BurstKind(StrEnum):
    """What is the matter with a burst."""

    CONTRADICTING = "contradicting"
    ONE_SIDED = "one_sided"


@dataclass(frozen=True, slots=True)
class _RecentLesson:
    at: float
    label: str
    contradicts: bool


@dataclass(slots=True)
class _ActorLessons:
    """The last lessons of one actor, oldest first, and when each sign was last seen."""

    lessons: deque[_RecentLesson] = field(default_factory=lambda: deque(maxlen=ONE_SIDED_LESSONS))
    last_seen: dict[BurstKind, float] = field(default_factory=dict)


class BurstDetector:
    """Remembers who taught what lately: of the last thousand actors their last hundred lessons."""

    def __init__(self) -> None:
        self._actors: OrderedDict[LessonSource, _ActorLessons] = OrderedDict()

    def add_lesson(
        self, now: float, lesson_source: LessonSource, label: str, verdict: Verdict, probability: float
    ) -> list[BurstKind]:
        """The bursts that begin with this lesson; not those that go on.

        ``now`` is in seconds and never falls; the verdict and P(spam) are those
        before the lesson, by a model that decides.
        """
        actor = self._actors.setdefault(lesson_source, _ActorLessons())
        self._actors.move_to_end(lesson_source)
        if len(self._actors) > _MAX_ACTORS:
            self._actors.popitem(last=False)
        actor.lessons.append(_RecentLesson(now, label, contradicts_confident_verdict(label, verdict, probability)))
        recent = [each for each in actor.lessons if now - each.at <= WINDOW_SECONDS]
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
    if sum(each.contradicts for each in recent[-2 * MIN_CONTRADICTIONS :]) >= MIN_CONTRADICTIONS:
        signs.append(BurstKind.CONTRADICTING)
    spam = sum(each.label == "spam" for each in recent)
    if len(recent) >= ONE_SIDED_LESSONS and min(spam, len(recent) - spam) <= MAX_OTHER_LABELS:
        signs.append(BurstKind.ONE_SIDED)
    return signs
