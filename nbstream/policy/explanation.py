"""Why a message was called what it was called, as the model stood at that moment.

Rules: pure; the prior and all clues sum to the score, exactly but for the one rounding of ``math.fsum``, so all of
them are here: at most 72 tokens of the multinomial model, 14 attributes, 14 numbers and 2 votes of the Bernoulli
model. The counts are those that the score was made of.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbstream.bayes.clues import LazySequence, TokenClues
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.event_models import clue_count_name
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.clues import Clue
    from nbstream.policy.verdict import ModelState, Thresholds


class CountedClue(NamedTuple):
    """A clue with the messages of each class that had it, by their weight then (fixed point); None for none."""

    token: bytes
    log_ratio: float
    ham: int | None
    spam: int | None


class CountedTokenClues(LazySequence[CountedClue]):
    """Clues that are tokens of the message, each with a row of ``counts``, shape (clues, classes)."""

    __slots__ = ("clues", "counts")

    def __init__(self, clues: TokenClues, counts: NDArray[np.int64]) -> None:
        super().__init__()
        self.clues = clues
        self.counts = counts

    def __len__(self) -> int:
        return len(self.clues)

    def _compute_items(self) -> tuple[CountedClue, ...]:
        rows = self.counts[self.clues.strength_order()].tolist()
        return tuple(CountedClue(*clue, row[HAM], row[SPAM]) for clue, row in zip(self.clues, rows, strict=True))


@dataclass(frozen=True, slots=True)
class Explanation:
    """One check: ``at`` in seconds since the epoch, ``score`` and ``prior`` in nats, the strongest clue first."""

    at: float
    verdict: str
    reason: str
    probability: float
    score: float
    prior: float
    thresholds: Thresholds
    state: ModelState
    clues: Sequence[CountedClue]

    def running_scores(self) -> list[float]:
        """The prior with the first clue, with the first two, and so on: the last is the score."""
        ratios = [clue.log_ratio for clue in self.clues]
        return [math.fsum([self.prior, *ratios[: end + 1]]) for end in range(len(ratios))]


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """The counts that a score was made of: names of tokens and sums, and their rows, shape (names, classes).

    ``growth`` is that of the weights of that moment.
    """

    names: tuple[bytes, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, len(CLASSES)), np.int64))
    growth: float = 1.0

    def count_clues(self, clues: Sequence[Clue]) -> Sequence[CountedClue]:
        """The clues with their counts; ``names`` begins with the tokens of the message that they are of."""
        if isinstance(clues, TokenClues):
            return CountedTokenClues(clues, self._rows_at_check(clues.token_indices))
        votes = {clue.token for clue in clues}
        places = {name: place for place, name in enumerate(self.names) if name in votes}
        sums = {clue_count_name(vote) for vote in votes - places.keys()}
        places |= {name: place for place, name in enumerate(self.names) if name in sums} if sums else {}
        rows = self._rows_at_check(list(places.values())).tolist() if places else []
        counts = dict(zip(places, rows, strict=True))
        return tuple(_count_clue(clue, counts) for clue in clues)

    def _rows_at_check(self, places: NDArray[np.intp] | list[int]) -> NDArray[np.int64]:
        """Some rows, as many messages as they were at that moment."""
        rows = self.rows[places]
        return rows if self.growth == 1 else np.rint(rows / self.growth).astype(np.int64)


def _count_clue(clue: Clue, counts: Mapping[bytes, Sequence[int]]) -> CountedClue:
    row = counts.get(clue.token) or counts.get(clue_count_name(clue.token)) or (None, None)
    return CountedClue(clue.token, clue.log_ratio, row[HAM], row[SPAM])
