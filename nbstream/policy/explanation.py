"""The explanation of a verdict, as the model stood at the moment of the check.

Rules: pure. The prior and all clues sum to the score, exactly but for the one rounding of ``math.fsum``. Therefore
an explanation has all clues: at most 144 tokens and the limit of automatic learning. The counts are those that the
score was computed from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.clues import LazySequence
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from nbstream.bayes.clues import TokenClues
    from nbstream.bayes.novelty import Discount
    from nbstream.policy.verdict import ModelState, Thresholds


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
