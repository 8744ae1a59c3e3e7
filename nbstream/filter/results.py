"""The results of the filter, and the policy that it decides by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.clues import NO_GROUP_TOKENS, GroupTokens, PackedClues, TokenClues
from nbstream.bayes.columns import CLASSES
from nbstream.policy.explanation import CountedTokenClues, Explanation
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.sender_lists import REASON_FOR_OTHERS, SITE
from nbstream.policy.verdict import Thresholds, Verdict, contradicts_label, is_discounted
from nbstream.tokens.tokens import Tokens

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.bayes.kinds import KindScores
    from nbstream.bayes.novelty import Discount
    from nbstream.policy.sender_lists import ListDecision
    from nbstream.policy.thresholds import ThresholdPolicy
    from nbstream.policy.verdict import ModelState

CANARY_REASON = "canary of nbstream doctor"
_NO_CLUES = PackedClues(b"", 0, 1, 4)


class FeedbackOutcome(StrEnum):
    """What became of one piece of feedback."""

    LEARNED = "learned"
    RELEARNED = "relearned"
    ALREADY = "already"
    REINFORCED = "reinforced"
    UNLEARNED = "unlearned"
    UNKNOWN = "unknown"


class OwnModelUse(StrEnum):
    """Whether an own model has a say in a check: none was taught, one has, or one was not loaded in time."""

    NONE = ""
    USED = "used"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, kw_only=True, slots=True)
class Check:
    """The result of one check.

    ``score`` is the log-odds in nats before calibration, ``probability`` is P(spam) after it. ``prior`` and the
    clues sum to the score; most of them are among the ``tokens`` of the message. ``thresholds`` are those that
    decided, and ``policy`` is the name of the rule that they belong to. ``is_canary``: the message is one of
    ``nbstream doctor``, see ``as_canary``. ``kinds`` is None where no kinds are configured, and in the checks of
    lessons. ``listed`` is what a sender list says of the message, and ``own`` whether an own model had a say.
    ``full_probability`` is P(spam) without the ``discount`` for mail unlike learned spam, which is None where
    there is none; ``group_tokens`` are those of the score.
    """

    id: str
    verdict: Verdict
    probability: float
    score: float
    reason: str
    state: ModelState
    clues: Sequence[Clue]
    thresholds: Thresholds = field(default_factory=Thresholds)
    prior: float = 0.0
    policy: str = DEFAULT_RULE_NAME
    is_canary: bool = False
    kinds: KindScores | None = None
    listed: ListDecision | None = None
    own: OwnModelUse = OwnModelUse.NONE
    full_probability: float = 0.0
    discount: Discount | None = None
    group_tokens: GroupTokens = NO_GROUP_TOKENS
    tokens: Tokens = field(default=Tokens((), ()), repr=False, compare=False)

    @property
    def is_discounted(self) -> bool:
        """Whether the message would be spam, were it not unlike learned spam."""
        return is_discounted(self.probability, self.thresholds, self.state, self.full_probability)

    @property
    def kind(self) -> KindScores | None:
        """How probable each kind is, if the model has kinds; None for spam, which is of no kind."""
        return None if self.verdict.is_spam else self.kinds

    @property
    def outcome(self) -> str:
        """What log and metrics call it: the verdict, or ``canary``."""
        return "canary" if self.is_canary else str(self.verdict)

    def as_canary(self) -> Check:
        """Return the check of a canary: it is spam whatever the model says, so that the answer is known.

        A canary was scored like any other message. Nobody reports or remembers its check, nothing is learned from
        it, and it is delivered whatever the actions are.
        """
        return replace(
            self, verdict=Verdict.SPAM, probability=1.0, full_probability=1.0, reason=CANARY_REASON, is_canary=True
        )

    def by_list(self, listed: ListDecision | None) -> Check:
        """Return the check as a sender list decides it; score and P(spam) stay. A canary is on no list."""
        if listed is None or self.is_canary:
            return self
        verdict, reason = listed.apply(self.verdict, self.reason)
        return replace(self, verdict=verdict, reason=reason, listed=listed)

    def for_others(self) -> Check:
        """Return the check for recipients for whom the lists say something else: no list of a user is named."""
        is_of_user = self.listed is not None and self.listed.owner != SITE
        return replace(self, reason=REASON_FOR_OTHERS) if is_of_user else self

    def contradicts(self, label: str) -> bool:
        """Return whether this check contradicts ``label``; see ``contradicts_label``."""
        return contradicts_label(label, self.probability, self.thresholds, self.state)

    def without_clues(self) -> Check:
        """Return the check for users of several own models: what one has taught is no business of the others."""
        return replace(self, clues=TokenClues(self.tokens, _NO_CLUES))

    def without_words(self) -> Check:
        """Return the check for what remembers it: where tokens are keyed hashes, the clues are named by these."""
        if self.tokens.words is None:
            return self
        tokens = self.tokens.without_words()
        assert isinstance(self.clues, TokenClues)
        return replace(self, clues=self.clues.of(tokens), tokens=tokens)

    def explain(self, at: float) -> Explanation:
        """Return the explanation of a check that was made ``at`` this time, in seconds since the epoch."""
        assert isinstance(self.clues, TokenClues)
        return Explanation(
            at=at,
            verdict=str(self.verdict),
            reason=self.reason,
            probability=self.probability,
            score=self.score,
            prior=self.prior,
            thresholds=self.thresholds,
            state=self.state,
            clues=CountedTokenClues(self.clues),
            discount=self.discount,
            full_probability=self.full_probability if self.discount else 0.0,
        )


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


@dataclass(frozen=True, slots=True)
class Contradiction:
    """How a message can be reinforced whose verdict contradicts its label after a lesson.

    ``has_most_weight`` says that the message has the most weight that one message may have: then nobody can.
    ``wait_seconds`` is in how many seconds the source of the lesson may reinforce, None for never.
    """

    has_most_weight: bool
    wait_seconds: float | None


@dataclass(frozen=True, slots=True)
class FeedbackResult:
    """The result of one piece of feedback.

    ``before`` is the check of the message before the lesson, and ``after`` is its check after the lesson. The
    score of ``after`` may be computed from the counts before the lesson and the lesson itself; then lessons of
    others at the same moment are missing in it. Its verdict uses the state and the thresholds after the lesson.
    ``contradiction`` is None where ``after`` does not contradict the label. ``was_automatic`` says that no person
    had taught the message: what was taken back had been learned automatically. ``kind`` is the kind that was
    learned or taken back, empty for none; ``former_class_name`` is what the message was before.
    """

    outcome: FeedbackOutcome
    label: str | None
    before: Check
    after: Check
    contradiction: Contradiction | None = None
    was_automatic: bool = False
    kind: str = ""
    former_class_name: str | None = None

    @property
    def class_name(self) -> str | None:
        """The name of the class that was learned or taken back: the kind, or else the label."""
        return self.kind or self.label


@dataclass(frozen=True, slots=True)
class FilterPolicy:
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
