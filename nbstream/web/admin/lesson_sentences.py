"""A lesson in the sentences of the page: what it changed, and what to do if the verdict contradicts it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.filter import FeedbackOutcome
from nbstream.web.rendering import format_probability

if TYPE_CHECKING:
    from nbstream.filter import Check, FeedbackResult

_OUTCOMES = {
    FeedbackOutcome.LEARNED: "The message was learned as {label}.",
    FeedbackOutcome.RELEARNED: "The message was relearned as {label}: it was {former} before.",
    FeedbackOutcome.REINFORCED: "You reinforced {label}: the message has more weight now.",
    FeedbackOutcome.ALREADY: "Nothing was learned: the message is learned as {label} already.",
    FeedbackOutcome.UNLEARNED: "The lesson was taken back: the message was learned as {label}.",
    FeedbackOutcome.UNKNOWN: (
        "Nothing was taken back: the message is not learned, or its lesson is forgotten (model.ledger_days)."
    ),
}
_UNLEARNED_AUTOMATIC = "What was learned automatically was taken back: the message was learned as {label}."
_STILL_CONTRADICTS = (
    "The verdict still contradicts the label {label}. If you are sure, reinforce it with its button."
)
_HAS_MOST_WEIGHT = (
    "The verdict still contradicts the label {label}, and the message has the most weight that one message "
    "may have. Teach further messages like it."
)
_UNCHANGED = frozenset({FeedbackOutcome.ALREADY, FeedbackOutcome.UNKNOWN})


def describe_lesson(lesson: FeedbackResult) -> str:
    """Return what a lesson changed, and whether the verdict still contradicts it; the view shows why."""
    sentences = [_UNLEARNED_AUTOMATIC if lesson.was_automatic else _OUTCOMES[lesson.outcome]]
    if lesson.outcome not in _UNCHANGED:
        sentences.append(_describe_change(lesson.before, lesson.after))
    if lesson.contradiction is not None:
        sentences.append(_HAS_MOST_WEIGHT if lesson.contradiction.has_most_weight else _STILL_CONTRADICTS)
    return " ".join(sentences).format(label=lesson.class_name, former=lesson.former_class_name)


def _describe_change(before: Check, after: Check) -> str:
    verdict = (
        f"the verdict is still {after.verdict}"
        if before.verdict is after.verdict
        else f"the verdict was {before.verdict} and is {after.verdict} now"
    )
    numbers = format_probability(before.probability), format_probability(after.probability)
    return f"P(spam) was {numbers[0]} and is {numbers[1]} now; {verdict}."
