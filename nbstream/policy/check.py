"""The check of a message, and its explanation as the model stood at the moment of the check.

Rules: pure. The prior and all clues sum to the score, exactly but for the one rounding of ``math.fsum``. Therefore
an explanation has all clues: at most 144 tokens and the limit of automatic learning. The counts are those that the
score was computed from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.clues import NO_GROUP_TOKENS, GroupTokens, LazySequence, PackedClues, TokenClues
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.policy.sender_lists import REASON_FOR_OTHERS, SITE
from nbstream.policy.verdict import Thresholds, Verdict, contradicts_label, is_discounted
from nbstream.tokens.tokens import Tokens

if TYPE_CHECKING:
    from nbstream.bayes.clues import Clue
    from nbstream.bayes.kinds import KindScores
    from nbstream.bayes.novelty import Discount
    from nbstream.policy.sender_lists import ListDecision
    from nbstream.policy.verdict import ModelState

CANARY_REASON = "canary of nbstream doctor"
_NO_CLUES = PackedClues(b"", 0, 1, 4)


class CountedClue(NamedTuple):
    """A clue with its counts: the weight of the messages of each class that had it, at that moment (fixed point).

    The counts are those of the common model, and None where the clue has none. ``own`` has a bit for each own
    model that has counts of the token too, the lowest for the upper level; what is stored does not say that.
    """

    token: bytes
    log_ratio: float
    ham: int | None
    spam: int | None
    own: int = 0


class CountedTokenClues(LazySequence[CountedClue]):
    """The clues of a check with the counts that its score was computed from."""

    __slots__ = ("clues",)

    def __init__(self, clues: TokenClues) -> None:
        super().__init__()
        self.clues = clues

    def __len__(self) -> int:
        return len(self.clues)

    def _compute_items(self) -> tuple[CountedClue, ...]:
        clues = self.clues
        (_, order), others = clues.ranked(), len(clues.others)
        rows = [*clues.packed.counts.tolist(), *[(None, None)] * others]
        levels = (clues.own_levels or bytes(clues.packed.length)) + bytes(others)
        return tuple(
            CountedClue(*clue, rows[i][HAM], rows[i][SPAM], levels[i])
            for clue, i in zip(clues, order, strict=True)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The explanation of one check.

    ``at`` is in seconds since the epoch, ``score`` and ``prior`` are in nats, and the strongest clue comes first.
    ``full_probability`` is P(spam) without the ``discount``, 0 where there is none.
    """

    at: float
    verdict: str
    reason: str
    probability: float
    score: float
    prior: float
    thresholds: Thresholds
    state: ModelState
    clues: Sequence[CountedClue]
    discount: Discount | None = None
    full_probability: float = 0.0

    def running_scores(self) -> list[float]:
        """Return the sums of the prior and the first clue, the first two clues, and so on.

        The last is the score.
        """
        ratios = [clue.log_ratio for clue in self.clues]
        return [math.fsum([self.prior, *ratios[: end + 1]]) for end in range(len(ratios))]


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
