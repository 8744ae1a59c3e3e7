"""The sentences about a lesson: what it changed."""

from __future__ import annotations

TEXTS = {
    # by the outcome of the lesson
    "learned": "The message was learned as {label}.",
    "relearned": "The message was relearned as {label}: it had the other label before.",
    "insisted": "You insisted on {label}: the message has more weight now.",
    "already": "Nothing was learned: the message is learned as {label} already.",
    "unlearned": "The lesson was taken back: the message was learned as {label}.",
    "unlearned_automatic": "What was learned automatically was taken back: the message was learned as {label}.",
    "unknown": (
        "Nothing was taken back: the message is not learned, or its lesson is forgotten (model.ledger_days)."
    ),
    # what it changed
    "other_verdict": (
        "P(spam) was {before} and is {after} now; the verdict was {verdict_before} and is {verdict} now."
    ),
    "same_verdict": "P(spam) was {before} and is {after} now; the verdict is still {verdict}.",
    "still_contradicts": (
        "The verdict still contradicts the label {label}. If you are sure, insist with the button of the message."
    ),
    "has_most_weight": (
        "The verdict still contradicts the label {label}, and the message has the most weight that one message "
        "may have. Teach further messages like it."
    ),
}
