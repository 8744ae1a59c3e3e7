"""The filter: one object with three verbs, check, learn and unlearn. All listeners use it.

Rules: ``check`` makes no network request. ``learn`` and ``unlearn`` return only when the change is durable in
Redis and the follower of this process has it. Both may be repeated: the second call changes nothing and says so,
unless a person reinforces.
"""

from nbstream.filter.autolearner import Autolearner, ImplicitHamLearner, ImplicitHamWalk
from nbstream.filter.filter import Filter, LabelledMessage, LessonMessage
from nbstream.filter.lesson_text import describe_lesson, describe_lessons, describe_outcome
from nbstream.filter.message_counts import CountSource, LessonStore, learned_by_class
from nbstream.filter.parts import (
    OWN_MODEL_UNAVAILABLE,
    CompositeObserver,
    FilterObserver,
    FilterParts,
    RememberingObserver,
)
from nbstream.filter.results import (
    CheckSeconds,
    Contradiction,
    FeedbackOutcome,
    FeedbackResult,
    FilterPolicy,
)
from nbstream.filter.scorer import CheckQueue
from nbstream.policy.check import Check, OwnModelUse
from nbstream.tokens.tokens import TokenizedMessage

__all__ = [
    "OWN_MODEL_UNAVAILABLE",
    "Autolearner",
    "Check",
    "CheckQueue",
    "CheckSeconds",
    "CompositeObserver",
    "Contradiction",
    "CountSource",
    "FeedbackOutcome",
    "FeedbackResult",
    "Filter",
    "FilterObserver",
    "FilterParts",
    "FilterPolicy",
    "ImplicitHamLearner",
    "ImplicitHamWalk",
    "LabelledMessage",
    "LessonMessage",
    "LessonStore",
    "OwnModelUse",
    "RememberingObserver",
    "TokenizedMessage",
    "describe_lesson",
    "describe_lessons",
    "describe_outcome",
    "learned_by_class",
]
