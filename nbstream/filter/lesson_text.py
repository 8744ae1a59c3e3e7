"""What feedback did, in words: one line of ASCII that is fit for SMTP replies, the same for every listener.

Rules: only those who may teach see the line. It names clues, which the writer of the message chose: they are
escaped and cut as in the header field with the clues. A reply line with the text and an id has less than 512 bytes
(RFC 5321 4.5.3.1.5).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from nbstream.filter.results import FeedbackOutcome
from nbstream.policy.header import escape_token
from nbstream.tokens.private_tokens import is_private

if TYPE_CHECKING:
    from nbstream.bayes.kinds import KindScores
    from nbstream.filter.results import Contradiction, FeedbackResult
    from nbstream.policy.check import Check
    from nbstream.policy.verdict import ModelState

_SHOWN_CLUES = 3
_MAX_NAME = 100
_HASHES = "tokens that are stored as keyed hashes"
_MOST_WEIGHT = "it has the most weight that one message may have"


def describe_lesson(lesson: FeedbackResult) -> str:
    """Describe one lesson: ``learned as spam: P 0.41 -> 0.93, was unsure, now spam; ham 180/200 known``.

    Where the message is still on the wrong side, the text names the strongest clues against the label, and says
    how to reinforce.
    """
    before, after, name = lesson.before, lesson.after, lesson.class_name
    match lesson.outcome:
        case FeedbackOutcome.UNKNOWN:
            return "unknown, nothing changed: it was never learned, or so long ago that this is forgotten"
        case FeedbackOutcome.ALREADY:
            text = f"already learned as {name}, nothing changed: P {_format_probability(before)}, {before.verdict}"
        case FeedbackOutcome.RELEARNED:
            former = lesson.former_class_name
            text = f"relearned as {name}, was learned as {former}: {_describe_change(before, after)}"
        case FeedbackOutcome.LEARNED:
            text = f"learned as {name}: {_describe_change(before, after)}"
        case FeedbackOutcome.REINFORCED:
            text = f"reinforced {name}: {_describe_change(before, after)}"
        case FeedbackOutcome.UNLEARNED:
            learned = "autolearned" if lesson.was_automatic else "learned"
            text = f"unlearned, was {learned} as {name}: {_describe_change(before, after)}"
    return f"{text}{_describe_contradiction(lesson)}; {_describe_model(lesson)}"


def describe_lessons(outcomes: Mapping[str, int], last: FeedbackResult) -> str:
    """Describe several lessons by how many had which outcome, and what is known after the last of them.

    It is ``1 already learned as spam, 2 learned as spam; ham 180/200 known``.
    """
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    return f"{counts}; {_describe_model(last)}"


def describe_outcome(lesson: FeedbackResult) -> str:
    """Describe what became of one of several messages, and of which class it is or was."""
    match lesson.outcome:
        case FeedbackOutcome.UNKNOWN:
            return "unknown"
        case FeedbackOutcome.ALREADY:
            return f"already learned as {lesson.class_name}"
        case FeedbackOutcome.REINFORCED:
            return f"reinforced {lesson.class_name}"
        case FeedbackOutcome.UNLEARNED:
            return f"unlearned from {lesson.class_name}"
        case _:
            return f"{lesson.outcome} as {lesson.class_name}"


def _describe_model(lesson: FeedbackResult) -> str:
    """Return how much the model knows that was taught, and its name if it is an own one."""
    name = f"; model={lesson.own_model[:_MAX_NAME]}" if lesson.own_model else ""
    return f"{describe_known_messages(lesson.after.state)}{name}"


def describe_known_messages(state: ModelState) -> str:
    """Describe how many messages of each class are learned, or how many are needed where some are missing."""
    missing = [
        f"{label} {count}/{state.needed[label]}"
        for label, count in state.learned.items()
        if count < state.needed.get(label, 0)
    ]
    return f"{', '.join(missing or (f'{label} {count}' for label, count in state.learned.items()))} known"


def describe_kind(scores: KindScores) -> str:
    """Describe which kind a message is of: ``newsletter 0.973106, ham 0.026894; notification needs 7 more``."""
    parts = [", ".join(f"{name} {probability:.6f}" for name, probability in scores.probabilities.items())]
    parts += [f"{name} needs {count} more" for name, count in scores.missing.items()]
    return "; ".join(filter(None, parts))


def _describe_change(before: Check, after: Check) -> str:
    verdicts = f"was {before.verdict}, now {after.verdict}"
    if before.verdict is after.verdict:
        verdicts = f"still {after.verdict}"
    return f"P {_format_probability(before)} -> {_format_probability(after)}, {verdicts}"


def _describe_contradiction(lesson: FeedbackResult) -> str:
    """Return the clues that contradict the label, and how to reinforce; nothing where no contradiction is left."""
    if lesson.contradiction is None:
        return ""
    against = 1 if lesson.label == "ham" else -1
    tokens = [clue.token for clue in lesson.after.clues if clue.log_ratio * against > 0][:_SHOWN_CLUES]
    named = _HASHES if any(map(is_private, tokens)) else " ".join(map(escape_token, tokens))
    because = f", because of {named}" if named else ""
    return f"{because}; {_describe_reinforcing(lesson.contradiction)}"


def _describe_reinforcing(contradiction: Contradiction) -> str:
    if contradiction.has_most_weight:
        return _MOST_WEIGHT
    if contradiction.wait_seconds is None:
        return "to reinforce it: nbstream learn --reinforce"
    if contradiction.wait_seconds == 0:
        return "repeat the label to reinforce it"
    return f"repeat the label in {math.ceil(contradiction.wait_seconds / 60)} min to reinforce it"


def _format_probability(check: Check) -> str:
    """P(spam) with two decimals, and with four where two would look like certainty."""
    return f"{check.probability:.{2 if 0.005 <= check.probability < 0.995 else 4}f}"
