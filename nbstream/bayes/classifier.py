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

from nbstream.bayes.clues import GroupTokens, PackedClues, Score, TokenClues, strongest_indices
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.bayes.multinomial import ALPHA, HAM, SPAM, class_masses, elementwise, log_priors, token_log_ratios
from nbstream.bayes.novelty import count_group_tokens
from nbstream.engine.score import NO_CALIBRATION, NativeScoring, pack_options
from nbstream.numpy_on_demand import np

if TYPE_CHECKING:
    import ctypes
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals
    from nbstream.bayes.multinomial import TokenCounts
    from nbstream.engine.score import NativeScore
    from nbstream.engine.table import Table
    from nbstream.tokens.tokens import Tokens


# The blend: the log-ratio of a token by the counts of a common model and of own models below it.
#
# Rules: pure; a token of which no own model has counts keeps the log-ratio of the common model to the last bit. So
# an empty own model changes nothing. A negative count is read as 0, as in ``multinomial``.
#
# The levels are a hierarchy of Dirichlet distributions (MacKay and Peto, "A hierarchical Dirichlet language
# model", 1995): what a level knows is the prior of the level below it. For one token this is the m-estimate
# (Cestnik, "Estimating probabilities: a crucial task in machine learning", 1990): to the occurrences that the own
# model has counted, the level above adds some that nobody has counted, and they have its ratio of spam to ham. How
# many they are is the strength of the prior.
#
# For the choice of the constants, and what was tried and not chosen, see docs/experiments.md, "Own models". For
# the derivation see docs/explanation/how-it-works.md, "Own models".


class PriorStrength(NamedTuple):
    """How many occurrences the level above counts as, for each token of an own model.

    They are ``occurrences``, and for a token that the common model has seen in both classes some more:
    ``per_probability`` x P Q / (P + Q), with its shares P and Q of all occurrences in ham and in spam. So what one
    class alone has is soon turned by those who see it otherwise, and what all mail has is hard to move: it says
    little about the few messages that a user has labelled.
    ``balancing`` is how many occurrences are added to the totals of both classes of an own model before their
    ratio is taken: the class of which it has more counts less for each occurrence, once it has many.
    """

    occurrences: float = 0.05
    per_probability: float = 200_000.0
    balancing: float = 1000.0


PRIOR_STRENGTH = PriorStrength()
"""The strength that was chosen on streams of mail."""


class OwnLevel(NamedTuple):
    """The counts of a message's tokens in one own model: ``rows`` of shape (tokens, classes).

    ``units`` says for each class which count stands for one occurrence.
    """

    rows: NDArray[np.int64]
    units: tuple[float, float]

    @classmethod
    def of(cls, counts: TokenCounts, strength: PriorStrength) -> OwnLevel:
        """Return the counts of a level, with its classes balanced.

        With u for ``WEIGHT_ONE``, the totals H and S of ham and spam, each divided by u, and b for ``balancing``,
        the unit of a class is u (H + b) / (b + (H + S) / 2), or the same with S. It is computed in this order.
        """
        weights = counts.totals.token_weights
        ham = max(weights[HAM], 0) / WEIGHT_ONE + strength.balancing
        spam = max(weights[SPAM], 0) / WEIGHT_ONE + strength.balancing
        mean = (ham + spam) / 2
        return cls(counts.rows, (WEIGHT_ONE * (ham / mean), WEIGHT_ONE * (spam / mean)))


def blend_log_ratios(
    ratios: NDArray[np.float64],
    common: TokenCounts,
    own: Sequence[OwnLevel],
    alpha: float,
    strength: PriorStrength,
) -> NDArray[np.float64]:
    """Return the log-ratios in nats, shape (tokens,), by the common model and the levels ``own`` below it.

    ``ratios`` are those by the counts of the ``common`` model alone, with Lidstone's ``alpha``; the upper level
    comes first in ``own``. Every implementation computes exactly this, in double precision and in this order, for
    each token of which a level has a count above 0:

    - p and q are P(token | ham) and P(token | spam) of the common model: h / H and s / S of ``token_log_ratios``.
      P and Q are the same without alpha in h and s: (ham / unit) / H and (spam / unit) / S; unit is
      ``WEIGHT_ONE``.
    - w = occurrences + per_probability * (P * Q / (P + Q)), or occurrences where P + Q is 0.
    - The prior is a = w * (p / (p + q)) of ham and b = w * (q / (p + q)) of spam; both are w / 2 for a token that
      the common model has never seen.
    - Each level that has a count above 0 changes the prior: x = ham / unit + a and y = spam / unit + b, of its own
      counts and units; a becomes x * (w / (x + y)), and b becomes y * (w / (x + y)).
    - The ratio is log(b / a).
    """
    if not own:
        return ratios
    spoken = np.flatnonzero(np.concatenate([level.rows for level in own], axis=1).max(axis=1) > 0)
    weight, prior = _prior_occurrences(common.rows[spoken], common, alpha, strength)
    for level in own:
        rows = np.maximum(level.rows[spoken], 0)
        posterior = rows / np.array(level.units) + prior
        posterior *= (weight / (posterior[:, HAM] + posterior[:, SPAM]))[:, np.newaxis]
        prior = np.where(rows.max(axis=1, keepdims=True) > 0, posterior, prior)
    blended = ratios.copy()
    blended[spoken] = elementwise(math.log, prior[:, SPAM] / prior[:, HAM])
    return blended


def _prior_occurrences(
    rows: NDArray[np.int64], common: TokenCounts, alpha: float, strength: PriorStrength
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return as how many occurrences the common model counts, shape (tokens,), and in each class.

    ``rows`` are the counts of some tokens in the common model, shape (tokens, classes).
    """
    masses = np.array(class_masses(common.totals, alpha))
    occurrences = np.maximum(rows, 0) / WEIGHT_ONE
    counted, smoothed = occurrences / masses, (occurrences + alpha) / masses
    both = counted[:, HAM] + counted[:, SPAM]
    is_seen = both > 0
    common_share = np.zeros(len(rows))
    np.divide(counted[:, HAM] * counted[:, SPAM], both, out=common_share, where=is_seen)
    weight = strength.occurrences + strength.per_probability * common_share
    shares = smoothed / (smoothed[:, HAM] + smoothed[:, SPAM])[:, np.newaxis]
    return weight, weight[:, np.newaxis] * np.where(is_seen[:, np.newaxis], shares, 0.5)


# The scores of the multinomial model with Lidstone's smoothing, computed by the native library.
#
# Rules: the result is that of ``Classifier.score`` to the last bit, with the same clues in the same order. What
# the library cannot compute it leaves to Python.


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


def _score_of(scored: NativeScore, tokens: Tokens, own: Sequence[OwnLevel], prior: float) -> Score:
    rows = tuple([level.rows for level in own]) if own else ()
    ranking = b"" if tokens.words else scored.ranking
    clues = TokenClues(tokens, PackedClues(*scored.clues), rows, ranking=ranking)
    return Score(scored.log_odds, clues, prior, GroupTokens(*scored.group_tokens), scored.likelihood)


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
        self._native = NativeScoring(library, 2 * sum(clue_limits.by_group)) if library else None
        self._last_prior = (0,) * len(CLASSES), 0.0
        self._last_options: tuple[Totals, bytes, float] | None = None

    def score(
        self,
        tokens: Tokens,
        counts: TokenCounts,
        own: Sequence[TokenCounts] = (),
        calibration: bytes = NO_CALIBRATION,
    ) -> Score:
        """Return the score of ``tokens``.

        ``counts`` are those of the common model, ``own`` those of the own models below it, the upper level first;
        see ``OwnLevel``. The prior is that of the common model. Where ``own`` has no count above 0, the score
        is that without it, to the last bit. With a ``calibration``, one of ``engine.score.pack_calibration``, the
        library computes the ``likelihood`` too.
        """
        levels = self._own_levels(own)
        if self._native:
            _, options, prior = self._options_for(counts.totals)
            joined = tokens.all.joined
            scored = self._native.score_rows(counts.rows, joined, tokens.sizes, options, levels, calibration)
            if scored:
                return _score_of(scored, tokens, levels, prior)
        prior = self._prior_log_odds(counts.totals.messages)
        clues = self._clues(tokens, counts, levels)
        group_tokens = count_group_tokens(tokens.head, (counts.rows, *[level.rows for level in levels]))
        return Score(math.fsum([prior, *clues.ratios.tolist()]), clues, prior, group_tokens)

    def score_in_table(
        self,
        tokens: Tokens,
        table: Table,
        totals: Totals,
        own: Sequence[TokenCounts] = (),
        calibration: bytes = NO_CALIBRATION,
    ) -> Score | None:
        """Return the score of ``tokens`` by their counts in ``table``, which are not looked up before.

        ``totals`` are those of the table, and the rest is as in ``score``. Returns None where Python has to do it.
        """
        if self._native is None:
            return None
        levels, (_, options, prior) = self._own_levels(own), self._options_for(totals)
        joined = tokens.all.joined
        scored = self._native.score_in_table(table, joined, tokens.sizes, options, levels, calibration)
        return _score_of(scored, tokens, levels, prior) if scored else None

    def _options_for(self, totals: Totals) -> tuple[Totals, bytes, float]:
        """Return the totals, the options for a model with them, and its prior; the same for the same object."""
        last = self._last_options
        if last is None or last[0] is not totals:
            prior, strength = self._prior_log_odds(totals.messages), self._strength
            options = pack_options(
                *(self._clue_limits.by_group, totals.token_weights, totals.vocabulary_size, self._alpha, prior),
                (strength.occurrences, strength.per_probability),
            )
            last = self._last_options = totals, options, prior
        return last

    def _own_levels(self, own: Sequence[TokenCounts]) -> tuple[OwnLevel, ...]:
        """Return the levels of ``own``; none where no level has a count above 0."""
        if not own or not any(level.rows.max(initial=0) > 0 for level in own):
            return ()
        return tuple(OwnLevel.of(level, self._strength) for level in own)

    def _clues(self, tokens: Tokens, counts: TokenCounts, own: Sequence[OwnLevel]) -> TokenClues:
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
