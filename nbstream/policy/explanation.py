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

from nbstream.bayes.counts import CLASSES
from nbstream.bayes.event_models import counted_under
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.clues import Clue
    from nbstream.policy.verdict import ModelState, Thresholds


class CountedClue(NamedTuple):
    """A clue with the messages of each class that had it, by their weight then (fixed point); None for none.

    A tuple: 55 a message are made, in a third of the time of a dataclass.
    """

    token: bytes
    log_ratio: float
    ham: int | None
    spam: int | None


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
    clues: tuple[CountedClue, ...]

    def sums(self) -> list[float]:
        """The prior with the first clue, with the first two, and so on: the last is the score."""
        ratios = [clue.log_ratio for clue in self.clues]
        return [math.fsum([self.prior, *ratios[: end + 1]]) for end in range(len(ratios))]


@dataclass(frozen=True, slots=True)
class Evidence:
    """The counts that a score was made of: names of tokens and sums, and their rows, shape (names, classes).

    ``growth`` is that of the weights of that moment.
    """

    names: tuple[bytes, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: np.empty((0, len(CLASSES)), np.int64))
    growth: float = 1.0

    def counted(self, clues: Sequence[Clue]) -> tuple[CountedClue, ...]:
        """The clues with their counts: 70 µs for 55 of 300 tokens, so it is done when somebody wants to know."""
        votes = {clue.token for clue in clues}
        places = {name: place for place, name in enumerate(self.names) if name in votes}
        sums = {counted_under(vote) for vote in votes - places.keys()}  # none, of the multinomial model alone
        places |= {name: place for place, name in enumerate(self.names) if name in sums} if sums else {}
        rows = np.rint(self.rows[list(places.values())] / self.growth).astype(np.int64).tolist() if places else []
        counts = dict(zip(places, rows, strict=True))
        return tuple(_counted(clue, counts) for clue in clues)


def _counted(clue: Clue, counts: Mapping[bytes, Sequence[int]]) -> CountedClue:
    row = counts.get(clue.token) or counts.get(counted_under(clue.token)) or (None, None)
    return CountedClue(clue.token, clue.log_ratio, row[HAM], row[SPAM])
