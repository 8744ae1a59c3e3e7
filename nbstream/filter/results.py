"""The results of the filter, and the policy that it decides by."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.columns import CLASSES

if TYPE_CHECKING:
    from nbstream.policy.check import Check
    from nbstream.policy.thresholds import ThresholdPolicy


class FeedbackOutcome(StrEnum):
    """What became of one piece of feedback."""

    LEARNED = "learned"
    RELEARNED = "relearned"
    ALREADY = "already"
    REINFORCED = "reinforced"
    UNLEARNED = "unlearned"
    UNKNOWN = "unknown"


class CheckSeconds(NamedTuple):
    """How long each stage of one check took, in seconds.

    ``wait`` is the time until the check began: in the check queue, and for a thread where the message is large.
    ``tokenize`` is the time that tokens and key of the message took. This is a named tuple because a frozen
    dataclass is slower to create.
    """

    wait: float
    tokenize: float
    score: float = 0.0

    def by_stage(self) -> dict[str, float]:
        """The seconds by the name of the stage, as metrics show them."""
        return {"wait": self.wait, "tokenize": self.tokenize, "score": self.score}


class Contradiction(NamedTuple):
    """How a message can be reinforced whose verdict contradicts its label after a lesson.

    ``has_most_weight`` says that the message has the most weight that one message may have: then nobody can.
    ``wait_seconds`` is in how many seconds the source of the lesson may reinforce, None for never.
    """

    has_most_weight: bool
    wait_seconds: float | None


class FeedbackResult(NamedTuple):
    """The result of one piece of feedback.

    ``before`` is the check of the message before the lesson, and ``after`` is its check after the lesson. The
    score of ``after`` may be computed from the counts before the lesson and the lesson itself; then lessons of
    others at the same moment are missing in it. Its verdict uses the state and the thresholds after the lesson.
    ``contradiction`` is None where ``after`` does not contradict the label. ``was_automatic`` says that no person
    had taught the message: what was taken back had been learned automatically. ``kind`` is the kind that was
    learned or taken back, empty for none; ``former_class_name`` is what the message was before. ``own_model`` is
    the name of the own model that was taught, empty for the common one.
    """

    outcome: FeedbackOutcome
    label: str | None
    before: Check
    after: Check
    contradiction: Contradiction | None = None
    was_automatic: bool = False
    kind: str = ""
    former_class_name: str | None = None
    own_model: str = ""

    @property
    def class_name(self) -> str | None:
        """The name of the class that was learned or taken back: the kind, or else the label."""
        return self.kind or self.label


class FilterPolicy(NamedTuple):
    """The policies of a filter, and how many messages of each class a model must learn before it decides."""

    default_policy: ThresholdPolicy
    min_learned: Mapping[str, int]
    other_policies: tuple[ThresholdPolicy, ...] = ()
    """The policies that decide some messages instead; see ``Filter.decide_by_rule``."""
    kinds: tuple[str, ...] = ()
    """Ham and the other classes than spam, where there are any; else empty."""

    @property
    def class_names(self) -> tuple[str, ...]:
        """The classes that can be taught."""
        return (*self.kinds, "spam") if self.kinds else CLASSES

    @property
    def budget_rates(self) -> frozenset[float]:
        """The false-positive rates of all policies."""
        return frozenset(
            policy.max_false_positive_rate
            for policy in (self.default_policy, *self.other_policies)
            if policy.max_false_positive_rate is not None
        )
