"""What feedback did, in words: one line of ASCII that is fit for SMTP replies, the same for every listener."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.filter.results import LessonOutcome

if TYPE_CHECKING:
    from nbstream.filter.results import Check, Lesson
    from nbstream.policy.verdict import ModelState


def describe_lesson(lesson: Lesson) -> str:
    """Describe one lesson: ``learned as spam: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known``."""
    before, after, label = lesson.before, lesson.after, lesson.label
    match lesson.outcome:
        case LessonOutcome.UNKNOWN:
            return "unknown, nothing changed: it was never learned, or so long ago that this is forgotten"
        case LessonOutcome.ALREADY:
            text = (
                f"already learned as {label}, nothing changed: P {_format_probability(before)}, {before.verdict}"
            )
        case LessonOutcome.RELEARNED:
            former = next(other for other in CLASSES if other != label)
            text = f"relearned as {label}, was learned as {former}: {_describe_change(before, after)}"
        case LessonOutcome.LEARNED:
            text = f"learned as {label}: {_describe_change(before, after)}"
        case LessonOutcome.UNLEARNED:
            text = f"unlearned, was learned as {label}: {_describe_change(before, after)}"
    return f"{text}; {describe_known_messages(after.state)}"


def describe_lessons(lessons: Sequence[Lesson]) -> str:
    """Describe several lessons by counting them: ``2 learned, 1 already; ham 180/200 known``."""
    outcomes = Counter(str(lesson.outcome) for lesson in lessons)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"{counts}; {describe_known_messages(lessons[-1].after.state)}"


def describe_known_messages(state: ModelState) -> str:
    """Describe how many messages of each class are learned, or how many are needed where some are missing."""
    missing = [
        f"{label} {count}/{state.needed[label]}"
        for label, count in state.learned.items()
        if count < state.needed.get(label, 0)
    ]
    return f"{', '.join(missing or (f'{label} {count}' for label, count in state.learned.items()))} known"


def _describe_change(before: Check, after: Check) -> str:
    verdicts = f"was {before.verdict}, now {after.verdict}"
    if before.verdict is after.verdict:
        verdicts = f"still {after.verdict}"
    return f"P {_format_probability(before)} -> {_format_probability(after)}, {verdicts}"


def _format_probability(check: Check) -> str:
    """P(spam) with two decimals, and with four where two would look like certainty."""
    return f"{check.probability:.{2 if 0.005 <= check.probability < 0.995 else 4}f}"
