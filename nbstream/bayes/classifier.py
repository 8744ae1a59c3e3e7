"""The classifier: the prior and the votes of the strongest clues add up to the log-odds of spam.

Rules: pure; the score does not depend on the order in which counts are looked up, because its sum is exact before
it is rounded; a token that was never seen does not vote.

The numbers of clues and the smoothing were chosen by a rule over three corpora, each left out in turn. For the
rule, the figures, and what was tried and not chosen see docs/experiments.md, "Lesson weights and clues on unseen
mail".
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.clues import TokenClues, strongest_indices
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.multinomial import ALPHA, HAM, SPAM, token_log_ratios
from nbstream.bayes.native_multinomial import NativeMultinomial
from nbstream.bayes.priors import log_priors
from nbstream.bayes.score import Score

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    from nbstream.bayes.multinomial import TokenCounts
    from nbstream.bayes.native_multinomial import TableScore
    from nbstream.engine.table import Table
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class ClueLimits:
    """How many tokens of each group vote for each class, at most, once the model has learned ``messages``.

    The groups are those of ``Tokens``.
    """

    messages: int
    head: int
    body: int
    raw_header: int


DEFAULT_CLUE_LIMITS = (
    ClueLimits(messages=0, head=12, body=24, raw_header=12),
    ClueLimits(messages=2_500, head=18, body=24, raw_header=12),
    ClueLimits(messages=6_000, head=24, body=28, raw_header=12),
    ClueLimits(messages=15_000, head=30, body=30, raw_header=12),
)
"""Weak clues mislead a model that knows few messages, and a model that knows many needs more of them."""


class Classifier:
    """Scores the tokens of a message against class counts: the strongest clues of each group and class vote.

    Where there is a native ``library``, it computes the scores that it can, with the same result.
    """

    def __init__(
        self,
        library: ctypes.CDLL | None = None,
        clue_limits: Sequence[ClueLimits] = DEFAULT_CLUE_LIMITS,
        alpha: float = ALPHA,
    ) -> None:
        self._clue_limits = clue_limits
        self._alpha = alpha
        most = max(limits.head + limits.body + limits.raw_header for limits in clue_limits)
        self._native = NativeMultinomial(library, 2 * most, alpha, self.group_limits) if library else None
        self._last_prior = (0,) * len(CLASSES), 0.0

    def score(self, tokens: Tokens, counts: TokenCounts) -> Score:
        """Return the score of ``tokens``."""
        if self._native:
            score = self._native.score(tokens, counts, self._prior_log_odds)
            if score:
                return score
        prior = self._prior_log_odds(counts.totals.messages)
        clues = self._clues(tokens, counts)
        return Score(math.fsum([prior, *clues.ratios.tolist()]), clues, prior)

    def score_in_table(self, tokens: Tokens, table: Table, unit: float) -> TableScore | None:
        """Return the score of ``tokens`` by their counts in ``table``, which are not looked up before.

        ``unit`` is as in ``TokenCounts``. Returns None where their counts have to be looked up.
        """
        return self._native.score_in_table(tokens, table, unit, self._prior_log_odds) if self._native else None

    def _clues(self, tokens: Tokens, counts: TokenCounts) -> TokenClues:
        ratios = token_log_ratios(counts.rows, counts.totals, self._alpha, counts.unit)
        start, strongest = 0, []
        for group, limit in zip(tokens.groups, self.group_limits(sum(counts.totals.messages)), strict=True):
            end = start + len(group)
            strongest.append(strongest_indices(group, ratios[start:end], limit) + start)
            start = end
        indices = np.sort(np.concatenate(strongest))
        return TokenClues(tokens, indices, ratios[indices])

    def group_limits(self, messages: int) -> tuple[int, int, int]:
        """Return how many clues of each group vote for a class, in the order of ``Tokens.groups``.

        ``messages`` is how many the model has learned.
        """
        limits = self._clue_limits[0]
        for later_limits in self._clue_limits[1:]:
            if messages >= later_limits.messages:
                limits = later_limits
        return limits.head, limits.body, limits.raw_header

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
