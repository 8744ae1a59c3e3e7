"""The explanation of a verdict, as the model stood at the moment of the check.

Rules: pure. The prior and all clues sum to the score, exactly but for the one rounding of ``math.fsum``. Therefore
an explanation has all clues: at most 144 tokens and the limit of automatic learning. The counts are those that the
score was computed from.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbstream.bayes.clues import LazySequence, PackedClues, TokenClues
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.multinomial import HAM, SPAM

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.bayes.clues import Clue
    from nbstream.bayes.novelty import Discount
    from nbstream.policy.verdict import ModelState, Thresholds
    from nbstream.tokens.tokenizer import Tokens


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
    """Clues that are ``tokens`` of the message, with the numbers that are ``packed``.

    ``own_rows`` is as in ``TokenClues``.
    """

    __slots__ = ("own_rows", "packed", "tokens")

    def __init__(self, tokens: Tokens, packed: PackedClues, own_rows: tuple[NDArray[np.int64], ...] = ()) -> None:
        super().__init__()
        self.tokens = tokens
        self.packed = packed
        self.own_rows = own_rows

    def __len__(self) -> int:
        return self.packed.length

    def _compute_items(self) -> tuple[CountedClue, ...]:
        clues = TokenClues.from_packed(self.tokens, self.packed, self.own_rows)
        order = clues.strength_order()
        rows, levels = self.packed.counts[order].tolist(), clues.own_levels or bytes(len(clues))
        return tuple(
            CountedClue(*clue, row[HAM], row[SPAM], levels[i])
            for clue, row, i in zip(clues, rows, order, strict=True)
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


_NO_ROWS = np.empty((0, len(CLASSES)), np.int64)


@dataclass(frozen=True, slots=True)
class ScoreCounts:
    """The counts behind the clues of a score, in ``rows``, shape (n, classes).

    Where the clues are tokens of the message, ``names`` is empty and each clue has a row, in the order of
    ``TokenClues.token_indices``; there are no rows where the clues have their counts packed. Else the rows are
    those of ``names``, the tokens of the message.
    """

    names: tuple[bytes, ...] = ()
    rows: NDArray[np.int64] = field(default_factory=lambda: _NO_ROWS)

    @classmethod
    def of_clues(cls, clues: Sequence[Clue], names: Sequence[bytes], rows: NDArray[np.int64]) -> ScoreCounts:
        """Return the counts behind ``clues``: of tokens their rows alone, since many wait in memory to be written.

        ``names`` begin with the tokens of the message; ``rows`` has the shape (names, classes).
        """
        if not isinstance(clues, TokenClues):
            return cls(tuple(names), rows)
        return cls() if clues.packed else cls((), rows[clues.token_indices])

    def named_by(self, names: Mapping[bytes, bytes]) -> ScoreCounts:
        """Return the same counts by the ``names`` of the tokens, where they have one."""
        return ScoreCounts(tuple(names.get(name, name) for name in self.names), self.rows)

    def count_clues(self, clues: Sequence[Clue]) -> Sequence[CountedClue]:
        """Return the clues, which are those that these counts belong to, with their counts."""
        if isinstance(clues, TokenClues):
            return CountedTokenClues(clues.tokens, self._packed(clues), clues.own_rows)
        votes = {clue.token for clue in clues}
        indices = {name: i for i, name in enumerate(self.names) if name in votes}
        rows = self.rows[list(indices.values())].tolist() if indices else []
        counts = dict(zip(indices, rows, strict=True))
        return tuple(_count_clue(clue, counts) for clue in clues)

    def _packed(self, clues: TokenClues) -> PackedClues:
        if clues.packed:
            return clues.packed
        return PackedClues.pack(clues.token_indices, self.rows, clues.ratios, len(clues.tokens.all))


def _count_clue(clue: Clue, counts: Mapping[bytes, Sequence[int]]) -> CountedClue:
    row = counts.get(clue.token, (None, None))
    return CountedClue(clue.token, clue.log_ratio, row[HAM], row[SPAM])
