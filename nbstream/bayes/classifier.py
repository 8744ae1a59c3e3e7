"""The classifier: the prior and the votes of the event models add up to the log-odds of spam.

Rules: pure; the score does not depend on the order in which counts are looked up, because its sum is exact before
it is rounded; a token that was never seen does not vote.

The numbers of clues and the smoothing were chosen by a rule over three corpora, each left out in turn. For the
rule, the figures, and what was tried and not chosen see docs/experiments.md, "Lesson weights and clues on unseen
mail".
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING

from nbstream.bayes import bernoulli, categorical, gaussian, lesson_weight, multinomial, priors
from nbstream.bayes.clues import Clue, sort_by_strength
from nbstream.bayes.counts import CLASSES, Totals
from nbstream.bayes.event_models import (
    BernoulliModel,
    CategoricalModel,
    ClueLimits,
    EventModel,
    FeatureCounts,
    GaussianModel,
    MultinomialModel,
)
from nbstream.bayes.half_life import grow_weight
from nbstream.bayes.multinomial import HAM, SPAM
from nbstream.bayes.native_multinomial import NativeMultinomial
from nbstream.bayes.score import Score

if TYPE_CHECKING:
    import ctypes

    from nbstream.bayes.counts import Sums
    from nbstream.bayes.native_multinomial import TableScore
    from nbstream.engine.table import Table
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class EventModelOptions:
    """The options of each event model; a model whose options are None does not vote."""

    multinomial: multinomial.MultinomialOptions | None = field(default_factory=multinomial.MultinomialOptions)
    bernoulli: bernoulli.BernoulliOptions | None = None
    categorical: categorical.CategoricalOptions | None = None
    gaussian: gaussian.GaussianOptions | None = None


DEFAULT_CLUE_LIMITS = (
    ClueLimits(messages=0, head=12, body=24, raw_header=12),
    ClueLimits(messages=2_500, head=18, body=24, raw_header=12),
    ClueLimits(messages=6_000, head=24, body=28, raw_header=12),
    ClueLimits(messages=15_000, head=30, body=30, raw_header=12),
)


@dataclass(frozen=True, slots=True)
class ClassifierOptions:
    """How features are weighed and how much is learned.

    ``clue_limits`` are those of the multinomial model: weak clues mislead a model that knows few messages, and a
    model that knows many needs more clues for its varied mail. Where ``lesson_weight`` is None, every message is
    learned at full weight.
    """

    event_models: EventModelOptions = field(default_factory=EventModelOptions)
    prior: priors.PriorOptions = field(default_factory=priors.PriorOptions)
    clue_limits: tuple[ClueLimits, ...] = DEFAULT_CLUE_LIMITS
    lesson_weight: lesson_weight.LessonWeightOptions | None = field(
        default_factory=lesson_weight.LessonWeightOptions
    )


class Classifier:
    """Scores the tokens of a message against class counts, and computes what a lesson adds to them.

    Where there is a native ``library``, it computes the scores that it can, with the same result.
    """

    def __init__(
        self, options: ClassifierOptions = ClassifierOptions(), library: ctypes.CDLL | None = None
    ) -> None:
        self._options = options
        self._models = _build_event_models(options)
        bounds = accumulate((len(model.sum_names) for model in self._models), initial=0)
        self._sum_slices = [slice(first, last) for first, last in pairwise(bounds)]
        self.sum_names = tuple(name for model in self._models for name in model.sum_names)
        """The names of the sums that a score reads."""
        self.needs_vocabulary = options.event_models.bernoulli is not None
        """Whether a score reads the counts of all tokens of the model."""
        first = self._models[0] if len(self._models) == 1 else None
        self._only_multinomial = first if isinstance(first, MultinomialModel) else None
        self._native = NativeMultinomial.for_model(library, self._only_multinomial) if library else None
        self._last_prior = (0,) * len(CLASSES), prior_log_odds(Totals(), options.prior)

    def score(self, tokens: Tokens, counts: FeatureCounts) -> Score:
        """Return the score of ``tokens``; the sums in ``counts`` are in the order of ``self.sum_names``."""
        if self._native:
            score = self._native.score(tokens, counts, self._prior_log_odds)
            if score:
                return score
        prior = self._prior_log_odds(counts.totals.messages)
        if self._only_multinomial:  # as by default
            clues = self._only_multinomial.clues(tokens, counts)
            return Score(math.fsum([prior, *clues.ratios.tolist()]), clues, prior)
        votes = [
            vote
            for model, model_counts in zip(self._models, self._counts_by_model(counts), strict=True)
            for vote in model.votes(tokens, model_counts)
        ]
        log_odds = math.fsum([prior, *(ratio for ratio, _ in votes)])
        return Score(log_odds, tuple(Clue(name, ratio) for ratio, name in sort_by_strength(votes)), prior)

    def score_in_table(self, tokens: Tokens, table: Table, unit: float) -> TableScore | None:
        """Return the score of ``tokens`` by their counts in ``table``, which are not looked up before.

        ``unit`` is as in ``FeatureCounts``. Returns None where their counts have to be looked up.
        """
        return self._native.score_in_table(tokens, table, unit, self._prior_log_odds) if self._native else None

    def weigh_lesson(
        self,
        tokens: Tokens,
        log_odds: float,
        label: str,
        *,
        certain: bool = False,
        growth: float = 1.0,
    ) -> tuple[int, Sums]:
        """Return the weight with which ``tokens`` are learned as ``label``, and the sums learned with them.

        ``log_odds`` (nats) is the score before the lesson; for ``certain`` see
        ``lesson_weight.lesson_weight``; ``growth`` is the factor by which the weights of this moment are
        multiplied.
        """
        weight = lesson_weight.lesson_weight(log_odds, label, self._options.lesson_weight, certain=certain)
        weight = grow_weight(weight, growth)
        return weight, self.lesson_sums(tokens, weight)

    def weigh_autolearned_lesson(
        self, tokens: Tokens, log_odds: float, label: str, share: float, growth: float
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """Return the same as ``weigh_lesson``, with only this ``share`` (0 to 1) of the weight."""
        weight = round(share * lesson_weight.lesson_weight(log_odds, label, self._options.lesson_weight))
        weight = grow_weight(weight, growth)
        return weight, tuple(self.lesson_sums(tokens, weight))

    def lesson_sums(self, tokens: Tokens, weight: int) -> list[tuple[bytes, int]]:
        """Return the sums that are learned with ``tokens`` at this weight."""
        return [lesson_sum for model in self._models for lesson_sum in model.lesson_sums(tokens, weight)]

    def _prior_log_odds(self, messages: tuple[int, ...]) -> float:
        """Return the prior log-odds by learned messages, computed again only when a message was learned."""
        last_messages, prior = self._last_prior
        if messages != last_messages:
            prior = prior_log_odds(Totals(messages), self._options.prior)
            self._last_prior = messages, prior
        return prior

    def _counts_by_model(self, counts: FeatureCounts) -> list[FeatureCounts]:
        """Return the counts that each model reads: all token counts, and the sums of that model alone."""
        return [
            FeatureCounts(
                counts.tokens, counts.sums[model_slice], counts.totals, counts.vocabulary_counts, counts.unit
            )
            for model_slice in self._sum_slices
        ]


def _build_event_models(options: ClassifierOptions) -> list[EventModel]:
    model_options = options.event_models
    models: list[EventModel] = []
    if model_options.multinomial:
        models.append(MultinomialModel(model_options.multinomial, options.clue_limits))
    if model_options.bernoulli:
        models.append(BernoulliModel(model_options.bernoulli))
    if model_options.categorical:
        models.append(CategoricalModel(model_options.categorical))
    if model_options.gaussian:
        models.append(GaussianModel(model_options.gaussian))
    return models


def prior_log_odds(totals: Totals, options: priors.PriorOptions) -> float:
    """Return the prior log-odds of spam, in nats, from the number of messages learned in each class.

    The result is 0 where a class has no probability, which happens when it has no messages and ``alpha`` is 0.
    """
    log_priors = priors.log_priors(totals.messages, options)
    ratio = float(log_priors[SPAM] - log_priors[HAM])
    return ratio if math.isfinite(ratio) else 0.0
