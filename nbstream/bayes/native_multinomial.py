"""The scores of the multinomial model with Lidstone's smoothing, computed by the native library.

Rules: the result is that of ``Classifier.score`` to the last bit, with the same clues in the same order. What the
library cannot compute it leaves to Python.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.clues import TokenClues
from nbstream.bayes.counts import Totals
from nbstream.bayes.packed_clues import PackedClues
from nbstream.bayes.score import Score
from nbstream.engine.score import MessagesChanged, NativeScore, NativeScoring, ScoreOptions

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable

    from nbstream.bayes.multinomial import TokenCounts
    from nbstream.engine.table import Table
    from nbstream.tokens.tokenizer import Tokens

_MAX_ATTEMPTS = 10  # a lesson would have to come between the attempts each time


@dataclass(frozen=True, slots=True)
class TableScore:
    """A score by the counts in a table, whose clues are packed; ``totals`` are those of the same moment."""

    score: Score
    totals: Totals


class NativeMultinomial:
    """The native way to the scores of a classifier with Lidstone's ``alpha``.

    A score has at most ``most_clues`` clues; ``group_limits`` returns how many of each group vote for a class.
    ``prior`` in the methods returns the prior log-odds for a number of learned messages of each class.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        most_clues: int,
        alpha: float,
        group_limits: Callable[[int], tuple[int, int, int]],
    ) -> None:
        self._scoring = NativeScoring(library, most_clues)
        self._group_limits = group_limits
        self._alpha = alpha
        self._options = ScoreOptions((-1, -1), (0, 0, 0), alpha, 0.0)  # for no model
        self._totals = Totals()

    def score(
        self, tokens: Tokens, counts: TokenCounts, prior: Callable[[tuple[int, ...]], float]
    ) -> Score | None:
        """Return the score of ``tokens`` by their counts, or None where Python has to compute it."""
        totals = counts.totals
        numbers = (*totals.messages, *totals.tokens, totals.vocabulary_size)
        options = self._options_for(totals.messages, prior)
        scored = self._scoring.score_rows(
            counts.rows, numbers, tokens.all.joined, tokens.sizes, options, counts.unit
        )
        return _score_of(scored, tokens, options.prior) if isinstance(scored, NativeScore) else None

    def score_in_table(
        self, tokens: Tokens, table: Table, unit: float, prior: Callable[[tuple[int, ...]], float]
    ) -> TableScore | None:
        """Return the score of ``tokens`` by their counts in ``table``, or None where Python has to compute it."""
        joined, sizes, options = tokens.all.joined, tokens.sizes, self._options
        for _ in range(_MAX_ATTEMPTS):
            scored = self._scoring.score_in_table(table, joined, sizes, options, unit)
            if not isinstance(scored, MessagesChanged):
                break
            options = self._options_for(scored.totals[:2], prior)
        if not isinstance(scored, NativeScore):
            return None
        return TableScore(_score_of(scored, tokens, options.prior), self._totals_of(scored.totals))

    def _options_for(self, messages: tuple[int, ...], prior: Callable[[tuple[int, ...]], float]) -> ScoreOptions:
        """Return the options for a model that has learned so many messages of each class."""
        if self._options.messages != messages:
            limits = self._group_limits(sum(messages))
            self._options = ScoreOptions(messages, limits, self._alpha, prior(messages))
        return self._options

    def _totals_of(self, numbers: tuple[int, ...]) -> Totals:
        """Return the totals as an object: the same until they change."""
        last = self._totals
        if numbers != (*last.messages, *last.tokens, last.vocabulary_size):
            self._totals = Totals(numbers[:2], numbers[2:4], numbers[4])
        return self._totals


def _score_of(scored: NativeScore, tokens: Tokens, prior: float) -> Score:
    clues = PackedClues(scored.packed, scored.clues, scored.index_bytes, scored.count_bytes)
    return Score(scored.log_odds, TokenClues.from_packed(tokens, clues), prior)
