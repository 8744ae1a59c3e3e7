"""The classifier: the prior and the votes of the strongest clues add up to the log-odds of spam.

Rules: pure; the score does not depend on the order in which counts are looked up, because its sum is exact before
it is rounded; a token that was never seen does not vote.

The numbers of clues and the smoothing were chosen by a rule over three corpora, each left out in turn. For the
rule and the figures see docs/experiments.md, "Lesson weights and clues on unseen mail".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from nbstream.bayes.blend import PRIOR_STRENGTH, OwnCounts, PriorStrength, blend_log_ratios
from nbstream.bayes.clues import GroupTokens, PackedClues, Score, TokenClues, strongest_indices
from nbstream.bayes.counts import CLASSES, Totals
from nbstream.bayes.multinomial import ALPHA, HAM, SPAM, log_priors, token_log_ratios
from nbstream.bayes.novelty import count_group_tokens
from nbstream.engine.score import MessagesChanged, NativeScore, NativeScoring, ScoreOptions

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Callable, Sequence

    from nbstream.bayes.multinomial import TokenCounts
    from nbstream.engine.table import Table
    from nbstream.tokens.tokenizer import Tokens


# The scores of the multinomial model with Lidstone's smoothing, computed by the native library.
#
# Rules: the result is that of ``Classifier.score`` to the last bit, with the same clues in the same order. What
# the library cannot compute it leaves to Python.

_MAX_ATTEMPTS = 10  # a lesson would have to come between the attempts each time
_NO_MESSAGES = (-(2**63),) * 2  # the numbers of no model: those of one may be negative for a while


@dataclass(frozen=True, slots=True)
class ClueLimits:
    """How many tokens of each group of ``Tokens`` vote for each class, at most."""

    head: int = 12
    body: int = 24
    raw_header: int = 12

    @property
    def by_group(self) -> tuple[int, int, int]:
        """The limits in the order of ``Tokens.groups``."""
        return self.head, self.body, self.raw_header


class TableScore(NamedTuple):
    """A score by the counts in a table, whose clues are packed; ``totals`` are those of the same moment."""

    score: Score
    totals: Totals


class NativeMultinomial:
    """The native way to the scores of a classifier with Lidstone's ``alpha``.

    ``clue_limits`` says how many tokens of each group vote for a class. ``prior`` in the methods returns the prior
    log-odds for a number of learned messages of each class.
    """

    def __init__(
        self,
        library: ctypes.CDLL,
        clue_limits: ClueLimits,
        alpha: float,
        strength: PriorStrength,
    ) -> None:
        self._scoring = NativeScoring(library, 2 * sum(clue_limits.by_group))
        self._clue_limits = clue_limits
        self._alpha = alpha
        self._strength = strength
        self._options = ScoreOptions(_NO_MESSAGES, (0, 0, 0), alpha, 0.0)
        self._totals = Totals()

    def score(
        self,
        tokens: Tokens,
        counts: TokenCounts,
        own: Sequence[OwnCounts],
        prior: Callable[[tuple[int, ...]], float],
    ) -> Score | None:
        """Return the score of ``tokens`` by their counts, or None where Python has to compute it."""
        totals = counts.totals
        numbers = (*totals.messages, *totals.token_weights, totals.vocabulary_size)
        options = self._options_for(totals.messages, prior)
        scored = self._scoring.score_rows((counts.rows, numbers), tokens.all.joined, tokens.sizes, options, own)
        return _score_of(scored, tokens, own, options.prior) if isinstance(scored, NativeScore) else None

    def score_in_table(
        self,
        tokens: Tokens,
        table: Table,
        own: Sequence[OwnCounts],
        prior: Callable[[tuple[int, ...]], float],
    ) -> TableScore | None:
        """Return the score of ``tokens`` by their counts in ``table``, or None where Python has to compute it."""
        joined, sizes, options = tokens.all.joined, tokens.sizes, self._options
        for _ in range(_MAX_ATTEMPTS):
            scored = self._scoring.score_in_table(table, joined, sizes, options, own)
            if not isinstance(scored, MessagesChanged):
                break
            options = self._options_for(scored.totals[:2], prior)
        if not isinstance(scored, NativeScore):
            return None
        return TableScore(_score_of(scored, tokens, own, options.prior), self._totals_of(scored.totals))

    def _options_for(self, messages: tuple[int, ...], prior: Callable[[tuple[int, ...]], float]) -> ScoreOptions:
        """Return the options for a model that has learned so many messages of each class."""
        if self._options.messages != messages:
            self._options = ScoreOptions(
                messages,
                self._clue_limits.by_group,
                self._alpha,
                prior(messages),
                self._strength.occurrences,
                self._strength.per_probability,
            )
        return self._options

    def _totals_of(self, numbers: tuple[int, ...]) -> Totals:
        """Return the totals as an object: the same until they change."""
        last = self._totals
        if numbers != (*last.messages, *last.token_weights, last.vocabulary_size):
            self._totals = Totals(numbers[:2], numbers[2:4], numbers[4])
        return self._totals


def _score_of(scored: NativeScore, tokens: Tokens, own: Sequence[OwnCounts], prior: float) -> Score:
    clues = PackedClues(scored.packed, scored.clues, scored.index_bytes, scored.count_bytes)
    rows = tuple([level.rows for level in own])
    group_tokens = GroupTokens(*scored.group_tokens)
    return Score(scored.log_odds, TokenClues(tokens, clues, rows), prior, group_tokens)


class Classifier:
    """Scores the tokens of a message against class counts: the strongest clues of each group and class vote.

    Where there is a native ``library``, it computes the scores that it can, with the same result.
    """

    def __init__(
        self,
        library: ctypes.CDLL | None = None,
        clue_limits: ClueLimits = ClueLimits(),
        alpha: float = ALPHA,
        strength: PriorStrength = PRIOR_STRENGTH,
    ) -> None:
        self._clue_limits = clue_limits
        self._alpha = alpha
        self._strength = strength
        self._native = NativeMultinomial(library, clue_limits, alpha, strength) if library else None
        self._last_prior = (0,) * len(CLASSES), 0.0

    def score(self, tokens: Tokens, counts: TokenCounts, own: Sequence[TokenCounts] = ()) -> Score:
        """Return the score of ``tokens``.

        ``counts`` are those of the common model, ``own`` those of the own models below it, the upper level first;
        see ``bayes.blend``. The prior is that of the common model. Where ``own`` has no count above 0, the score
        is that without it, to the last bit.
        """
        levels = self._own_counts(own)
        if self._native:
            score = self._native.score(tokens, counts, levels, self._prior_log_odds)
            if score:
                return score
        prior = self._prior_log_odds(counts.totals.messages)
        clues = self._clues(tokens, counts, levels)
        group_tokens = count_group_tokens(tokens.head, (counts.rows, *[level.rows for level in levels]))
        return Score(math.fsum([prior, *clues.ratios.tolist()]), clues, prior, group_tokens)

    def score_in_table(self, tokens: Tokens, table: Table, own: Sequence[TokenCounts] = ()) -> TableScore | None:
        """Return the score of ``tokens`` by their counts in ``table``, which are not looked up before.

        ``own`` is as in ``score``. Returns None where their counts have to be looked up.
        """
        if self._native is None:
            return None
        return self._native.score_in_table(tokens, table, self._own_counts(own), self._prior_log_odds)

    def _own_counts(self, own: Sequence[TokenCounts]) -> tuple[OwnCounts, ...]:
        """Return the levels of ``own``; none where no level has a count above 0."""
        if not own or not any(level.rows.max(initial=0) > 0 for level in own):
            return ()
        return tuple(OwnCounts.of(level, self._strength) for level in own)

    def _clues(self, tokens: Tokens, counts: TokenCounts, own: Sequence[OwnCounts]) -> TokenClues:
        ratios = token_log_ratios(counts.rows, counts.totals, self._alpha)
        ratios = blend_log_ratios(ratios, counts, own, self._alpha, self._strength)
        start, strongest = 0, []
        for group, limit in zip(tokens.groups, self._clue_limits.by_group, strict=True):
            end = start + len(group)
            strongest.append(strongest_indices(group, ratios[start:end], limit) + start)
            start = end
        indices = np.sort(np.concatenate(strongest))
        packed = PackedClues.pack(indices, counts.rows[indices], ratios[indices], len(tokens.all))
        return TokenClues(tokens, packed, tuple([level.rows for level in own]))

    def _prior_log_odds(self, messages: tuple[int, ...]) -> float:
        """Return the prior log-odds by learned messages, computed again only when a message was learned."""
        last_messages, prior = self._last_prior
        if messages != last_messages:
            prior = prior_log_odds(messages)
            self._last_prior = messages, prior
        return prior


def prior_log_odds(messages: Sequence[int]) -> float:
    """Return the prior log-odds of spam, in nats, from the number of messages learned in each class."""
    priors = log_priors(messages)
    return float(priors[SPAM] - priors[HAM])
