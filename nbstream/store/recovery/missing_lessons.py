"""Which recorded lessons of a message Redis has lost, and which of them may be taught again.

Rules: pure, nothing is read here. A lesson that is in the history was not lost. A lost lesson is taught again only
if it is the last word on its message: if the history has a later step of the message, that one stays. When a step
was made is its time by the clock of Redis; a lesson that was taught again has the time of the lost one. After that
clock was set back, the time in the stream ids stands still until it is reached again, on two primaries at the same
millisecond: then the clocks of those who taught decide. Several lost lessons of a message are taught again in
their order, so each follows the one before.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.store.model.lesson_journal import UNKNOWN_VERSION

if TYPE_CHECKING:
    from nbstream.store.model.history import HistoryStep
    from nbstream.store.recovery.recorded_lessons import RecordedLesson


class LessonFate(StrEnum):
    """What became of a recorded lesson."""

    PRESENT = "present"
    """Redis has it."""
    MISSING = "missing"
    """Redis has lost it, and nothing later is known of its message."""
    SUPERSEDED = "superseded"
    """Redis has lost it, and the message was taught something else, or unlearned, since."""
    UNKNOWN = "unknown"
    """The history does not go back far enough to tell."""


def fates(
    lessons: Sequence[RecordedLesson], steps: Sequence[HistoryStep], trimmed_until: int = 0
) -> list[LessonFate]:
    """What became of each of the recorded lessons of one message, which come in their order.

    ``steps`` are those of the message in the history, oldest first, at least since the first lesson. What is not
    later than ``trimmed_until`` (in milliseconds) may be missing in them. The work is linear, since one message
    may be taught and unlearned thousands of times.
    """
    last_place = {step.version: place for place, step in enumerate(steps)}
    latest_from = [(0, 0.0)] * (len(steps) + 1)  # the latest moment of all steps from that place on
    for place in reversed(range(len(steps))):
        latest_from[place] = max(steps[place].moment, latest_from[place + 1])

    def fate(lesson: RecordedLesson, *, is_present: bool) -> LessonFate:
        if is_present:
            return LessonFate.PRESENT
        # What comes after the step that the lesson followed may be of the same millisecond.
        first = last_place.get(lesson.former_version, -1) + 1 if lesson.former_version else 0
        if latest_from[first] > lesson.moment:
            return LessonFate.SUPERSEDED
        return LessonFate.UNKNOWN if lesson.milliseconds <= trimmed_until else LessonFate.MISSING

    are_present = _are_in_history(lessons, steps)
    return [fate(lesson, is_present=present) for lesson, present in zip(lessons, are_present, strict=True)]


def _are_in_history(lessons: Sequence[RecordedLesson], steps: Sequence[HistoryStep]) -> list[bool]:
    """Whether a step of the history is that lesson, and not an earlier one with the same effect.

    An undo puts a former entry back with its version, so the same step may occur twice. A lesson that was only
    found in place has no step of its own: any step that left its entry will do.
    """
    versions = {step.version for step in steps}
    same_steps = Counter((step.former_version, step.version) for step in steps if not step.repeats)
    repeated = {step.repeats for step in steps}
    are_present = []
    for lesson in lessons:
        effect = (lesson.former_version, lesson.version)
        is_in_place = lesson.former_version == UNKNOWN_VERSION and lesson.version in versions
        are_present.append(is_in_place or lesson.change in repeated or same_steps[effect] > 0)
        if lesson.change not in repeated:
            same_steps[effect] -= 1
    return are_present
