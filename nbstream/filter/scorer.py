"""From tokens to a check: read the counts, score, calibrate and decide. Also what a lesson adds to the counts."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.classifier import Score
from nbstream.bayes.clues import Clue, sort_by_strength
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts, Totals
from nbstream.bayes.event_models import FeatureCounts
from nbstream.errors import StoreUnavailable
from nbstream.filter.results import Check
from nbstream.policy.autolearn import LIMIT_CLUE, limit_log_odds
from nbstream.policy.explanation import ScoreCounts
from nbstream.policy.first_scores import FirstScore, FirstScores
from nbstream.policy.policy import spam_by_budget
from nbstream.policy.verdict import ModelState, decide_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.bayes.counts import Sums
    from nbstream.filter.protocols import CountSource
    from nbstream.filter.results import FilterPolicy
    from nbstream.policy.budget import BudgetPromise
    from nbstream.policy.policy import ThresholdPolicy
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class AutolearnedCounts:
    """The counts of the autolearn layer: ``rows`` of the same names, shape (names, classes), and ``totals``."""

    rows: NDArray[np.int64]
    totals: Totals


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """The counts that matter for a message, at one moment.

    ``names`` are its tokens, then the bins of the calibration, then the sums of the event models. ``rows`` has the
    counts of these names, shape (names, classes), as people taught them. ``growth`` is the growth of weights at
    that moment. ``first_scores`` is the live object: it changes with later lessons. ``autolearned`` is None where
    nothing is learned without people, or while that cannot be read.
    """

    names: tuple[bytes, ...]
    rows: NDArray[np.int64]
    totals: Totals
    vocabulary_counts: NDArray[np.int64] | None
    growth: float
    first_scores: FirstScores
    autolearned: AutolearnedCounts | None = None


class Scorer:
    """Scores tokens with the counts that people taught, and with those of the autolearn layer if there is one.

    ``clock`` gives the seconds since the epoch. What a layer may change is bounded; see ``policy.autolearn``.
    """

    def __init__(
        self,
        classifier: Classifier,
        calibration: Calibration,
        counts: CountSource,
        policy: FilterPolicy,
        clock: Callable[[], float] = time.time,
        autolearned_counts: CountSource | None = None,
    ) -> None:
        self._classifier = classifier
        self._calibration = calibration
        self._counts = counts
        self._policy = policy
        self._clock = clock
        self._autolearned_counts = autolearned_counts
        self._no_first_scores = FirstScores()
        self._threshold_cache: (
            tuple[FirstScores, int, dict[ThresholdPolicy, tuple[Mapping[float, BudgetPromise], Thresholds]]] | None
        ) = None
        self._sum_names = (*SCORE_BINS, *classifier.sum_names)
        self._has_budgets = bool(policy.budget_rates)
        self._cached_state: tuple[tuple[int, ...], ModelState] = (), ModelState({})

    @property
    def predicts_exactly(self) -> bool:
        """Whether ``counts_after_lesson`` predicts the next score to the last bit, if nobody else teaches."""
        return not self._classifier.needs_vocabulary

    def count_names(self, tokens: Tokens, old_entry: LedgerEntry | None) -> tuple[bytes, ...]:
        """Return the names of the counts that matter for a message.

        Those of the message come first, then those that only ``old_entry`` has added to.
        """
        names = (*tokens.all, *self._sum_names)
        if old_entry is None:
            return names
        return tuple(dict.fromkeys((*names, *old_entry.tokens, *(name for name, _ in old_entry.sums))))

    async def read_counts(self, tokens: Tokens) -> MessageCounts:
        """Read the counts that matter for ``tokens``."""
        return await self.read_named_counts(self.count_names(tokens, None))

    async def read_named_counts(self, names: tuple[bytes, ...]) -> MessageCounts:
        """Read the counts of ``names``."""
        rows, totals = await self._counts.look_up(names)
        vocabulary = await self._counts.vocabulary_counts() if self._classifier.needs_vocabulary else None
        growth = self._counts.half_life.growth(self._clock())
        return MessageCounts(
            names, rows, totals, vocabulary, growth, await self.first_scores(), await self._read_layer(names)
        )

    async def _read_layer(self, names: tuple[bytes, ...]) -> AutolearnedCounts | None:
        if self._autolearned_counts is None:
            return None
        try:
            return AutolearnedCounts(*await self._autolearned_counts.look_up(names))
        except StoreUnavailable:
            return None

    async def first_scores(self) -> FirstScores:
        """Return the first scores that budgets need; there are none where no policy has a budget."""
        return await self._counts.first_scores() if self._has_budgets else self._no_first_scores

    def check(self, message_key: str, tokens: Tokens, counts: MessageCounts) -> Check:
        """Return the check of a message by these counts."""
        totals, rows = counts.totals, counts.rows
        score = self._score(tokens, counts, rows, totals)
        if counts.autolearned:
            rows = rows + counts.autolearned.rows
            both = self._score(tokens, counts, rows, _totals_of_both(totals, counts.autolearned.totals))
            log_odds = limit_log_odds(
                score.log_odds, both.log_odds, lambda odds: self._probability(odds, tokens, counts)
            )
            score = both if log_odds == both.log_odds else _limited_score(both, log_odds)
        probability = self._probability(score.log_odds, tokens, counts)
        state = self._model_state(totals)
        thresholds = self.thresholds(self._policy.default_policy, counts.first_scores)
        verdict, reason = decide_verdict(probability, thresholds, state)
        return Check(
            message_key,
            verdict,
            probability,
            score.log_odds,
            reason,
            state,
            score.clues,
            thresholds,
            score.prior,
            ScoreCounts(counts.names, rows, counts.growth),  # without the vocabulary: it would stay in memory
        )

    def _score(self, tokens: Tokens, counts: MessageCounts, rows: NDArray[np.int64], totals: Totals) -> Score:
        """Return the score by these rows and totals, in the place of those in ``counts``."""
        n = len(tokens.all)
        sums, unit = rows[n + len(SCORE_BINS) :], WEIGHT_ONE * counts.growth
        return self._classifier.score(
            tokens, FeatureCounts(rows[:n], sums, totals, counts.vocabulary_counts, unit)
        )

    def _probability(self, log_odds: float, tokens: Tokens, counts: MessageCounts) -> float:
        """Return P(spam) by the calibration, which people alone teach."""
        n = len(tokens.all)
        bins = counts.rows[n : n + len(SCORE_BINS)]
        return self._calibration.probability(log_odds, bins, counts.totals, WEIGHT_ONE * counts.growth)

    def decide_again(self, check: Check, totals: Totals, first_scores: FirstScores) -> Check:
        """Decide a check again, by the number of learned messages and the thresholds of this moment."""
        thresholds = self.thresholds(self._policy.default_policy, first_scores)
        return decide_check(replace(check, state=self._model_state(totals)), thresholds)

    def _model_state(self, totals: Totals) -> ModelState:
        """Return the state of the model: the same object until something is learned."""
        if self._cached_state[0] != totals.messages:
            learned = dict(zip(CLASSES, totals.messages, strict=True))
            self._cached_state = totals.messages, ModelState(learned, self._policy.min_learned)
        return self._cached_state[1]

    def thresholds(self, policy: ThresholdPolicy, first_scores: FirstScores) -> Thresholds:
        """Return the thresholds of ``policy`` that hold now."""
        return self._promises_and_thresholds(policy, first_scores)[1]

    def _promises_and_thresholds(
        self, policy: ThresholdPolicy, first_scores: FirstScores
    ) -> tuple[Mapping[float, BudgetPromise], Thresholds]:
        """Return the promises and the thresholds of ``policy`` that hold now.

        They are computed again only when the first scores of ham have changed.
        """
        changes = first_scores["ham"].change_count
        if (
            self._threshold_cache is None
            or self._threshold_cache[0] is not first_scores
            or self._threshold_cache[1] != changes
        ):
            self._threshold_cache = first_scores, changes, {}
        promises_and_thresholds = self._threshold_cache[2].get(policy)
        if promises_and_thresholds is None:
            promises = policy.budget_promises(first_scores)
            promises_and_thresholds = promises, policy.resolve_thresholds(promises)
            self._threshold_cache[2][policy] = promises_and_thresholds
        return promises_and_thresholds

    def first_score(self, check: Check, counts: MessageCounts, at: float) -> FirstScore:
        """Return the first score of a message: ``check`` came before its first label.

        ``at`` is the time of the label in seconds since the epoch.
        """
        is_spam_by_rate: dict[float, bool] = {}
        for policy in (self._policy.default_policy, *self._policy.other_policies):
            promises, _ = self._promises_and_thresholds(policy, counts.first_scores)
            for rate, is_spam in spam_by_budget(policy, promises, check.probability).items():
                called_spam = is_spam and not check.state.is_learning
                is_spam_by_rate[rate] = is_spam_by_rate.get(rate, False) or called_spam
        return FirstScore(at, check.id, check.probability, tuple(sorted(is_spam_by_rate.items())))

    def weigh_lesson(
        self, tokens: Tokens, score: float, label: str, counts: MessageCounts, old_entry: LedgerEntry | None
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """Return the weight and the sums to learn.

        A message with an ``old_entry`` keeps its first score in the bins of the calibration.
        """
        totals, growth = counts.totals, counts.growth
        bin_sums = (
            first_score_sums(old_entry) if old_entry else self._calibration.lesson_sums(score, totals, growth)
        )
        weight, sums = self._classifier.weigh_lesson(
            tokens, score, label, certain=old_entry is not None, growth=growth
        )
        return weight, (*bin_sums, *sums)

    def insisted_sums(self, tokens: Tokens, weight: int, old_entry: LedgerEntry) -> tuple[tuple[bytes, int], ...]:
        """Return the sums to learn where a person insists, and the message gets this weight.

        The message keeps its first score in the bins of the calibration.
        """
        return (*first_score_sums(old_entry), *self._classifier.lesson_sums(tokens, weight))

    def weigh_autolearned_lesson(
        self, tokens: Tokens, score: float, label: str, counts: MessageCounts, share: float
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """Return the weight and the sums to learn where no person gave the label.

        The weight is a ``share`` of the usual one. The calibration learns nothing: what the model says of itself
        is no evidence that it is right.
        """
        return self._classifier.weigh_autolearned_lesson(tokens, score, label, share, counts.growth)


def first_score_sums(entry: LedgerEntry) -> Sums:
    """Return the sums of an entry that count the first score of its message in the bins of the calibration."""
    return [(name, amount) for name, amount in entry.sums if name in SCORE_BINS]


def _totals_of_both(people: Totals, layer: Totals) -> Totals:
    """Return the totals of what people taught and of the autolearn layer together.

    The number of messages is that of people: what they taught decides whether a model is ready, and the prior. The
    vocabulary size is the sum of both sizes, so a token that both have counts twice. The result lies between the
    true size and twice that, and its part in the smoothing is the same for each class.
    """
    weights = tuple(a + b for a, b in zip(people.tokens, layer.tokens, strict=True))
    return Totals(people.messages, weights, people.vocabulary_size + layer.vocabulary_size)


def _limited_score(score: Score, log_odds: float) -> Score:
    """Return the score with ``log_odds``, and a clue for what is taken back."""
    votes = [(ratio, name) for name, ratio in score.clues]
    votes.append((log_odds - score.log_odds, LIMIT_CLUE))
    limited_log_odds = math.fsum([score.prior, *(ratio for ratio, _ in votes)])
    return Score(
        limited_log_odds, tuple(Clue(name, ratio) for ratio, name in sort_by_strength(votes)), score.prior
    )


def decide_check(check: Check, thresholds: Thresholds) -> Check:
    """Decide a check again by these thresholds."""
    verdict, reason = decide_verdict(check.probability, thresholds, check.state)
    return replace(check, verdict=verdict, reason=reason, thresholds=thresholds)


def counts_after_lesson(
    counts: MessageCounts, old_entry: LedgerEntry | None, new_entry: LedgerEntry | None
) -> MessageCounts:
    """Return the counts once ``old_entry`` is taken back and ``new_entry`` is added, if nobody else teaches."""
    if new_entry and not old_entry and tuple(new_entry.tokens) == counts.names[: len(new_entry.tokens)]:
        return _counts_after_new_entry(counts, new_entry)
    changed = ClassCounts()
    changed.set_counts(counts.names, counts.rows)
    changed.totals = counts.totals
    if old_entry:
        changed.subtract(old_entry.tokens, CLASSES.index(old_entry.label), old_entry.weight, old_entry.sums)
    if new_entry:
        changed.add(new_entry.tokens, CLASSES.index(new_entry.label), new_entry.weight, new_entry.sums)
    return replace(counts, rows=changed.look_up(counts.names), totals=changed.totals)


def _counts_after_new_entry(counts: MessageCounts, new_entry: LedgerEntry) -> MessageCounts:
    """Return the counts after a first lesson, whose tokens are those of ``counts``.

    The result is that of ``ClassCounts``, but computed by arrays: most lessons are of this kind.
    """
    n, column, rows = len(new_entry.tokens), CLASSES.index(new_entry.label), counts.rows.copy()
    own_counts = rows[:n, column]
    other_columns = [other for other in range(len(CLASSES)) if other != column]
    in_other_class = rows[:n, other_columns[0]] > 0
    for other in other_columns[1:]:
        in_other_class |= rows[:n, other] > 0
    vocabulary_before = np.count_nonzero((own_counts > 0) | in_other_class)
    own_counts += new_entry.weight
    new_tokens = int(np.count_nonzero((own_counts > 0) | in_other_class) - vocabulary_before)
    sum_names = counts.names[n:]
    for name, amount in new_entry.sums:
        if name in sum_names:
            rows[n + sum_names.index(name), column] += amount
    totals = counts.totals.with_lesson(column, new_entry.weight * n, new_tokens)
    return replace(counts, rows=rows, totals=totals)
