"""From tokens to a check: read the counts, score, calibrate, decide; and what a label would make of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts
from nbstream.bayes.event_models import FeatureCounts
from nbstream.filter.results import Check
from nbstream.policy.explanation import ScoreCounts
from nbstream.policy.first_scores import FirstScore, FirstScores
from nbstream.policy.policy import spam_by_budget
from nbstream.policy.verdict import ModelState, decide_verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.bayes.counts import Sums, Totals
    from nbstream.filter.protocols import CountSource
    from nbstream.filter.results import FilterPolicy
    from nbstream.policy.budget import BudgetPromise
    from nbstream.policy.policy import ThresholdPolicy
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class MessageCounts:
    """What is counted of a message at one moment: its tokens, the calibration's bins, the event models' sums.

    ``rows`` has the shape (names, classes), in that order; ``growth`` is that of the weights of that moment.
    ``first_scores`` are those of now, also later.
    """

    names: tuple[bytes, ...]
    rows: NDArray[np.int64]
    totals: Totals
    vocabulary_counts: NDArray[np.int64] | None
    growth: float
    first_scores: FirstScores


class Scorer:
    """Scores tokens over one source of counts; ``clock`` gives the seconds since the epoch."""

    def __init__(
        self,
        classifier: Classifier,
        calibration: Calibration,
        counts: CountSource,
        params: FilterPolicy,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._classifier = classifier
        self._calibration = calibration
        self._counts = counts
        self._policy = params
        self._clock = clock
        self._no_first_scores = FirstScores()
        self._threshold_cache: (
            tuple[FirstScores, int, dict[ThresholdPolicy, tuple[Mapping[float, BudgetPromise], Thresholds]]] | None
        ) = None
        self._sum_names = (*SCORE_BINS, *classifier.sum_names)
        self._has_budgets = bool(params.budget_rates)
        self._cached_state: tuple[tuple[int, ...], ModelState] = (), ModelState({})

    def with_policy(self, params: FilterPolicy) -> Scorer:
        """The same scores, decided by other params."""
        return Scorer(self._classifier, self._calibration, self._counts, params, self._clock)

    @property
    def predicts_exactly(self) -> bool:
        """Whether ``counts_after_lesson`` gives the later score to the last bit, if nobody else teaches."""
        return not self._classifier.needs_vocabulary

    def count_names(self, tokens: Tokens, known: LedgerEntry | None) -> tuple[bytes, ...]:
        """Whose counts matter: those of a message, and behind them what else it is ``known`` to have added."""
        names = (*tokens.head, *tokens.body, *self._sum_names)
        if known is None:
            return names
        return tuple(dict.fromkeys((*names, *known.tokens, *(name for name, _ in known.sums))))

    async def read_counts(self, tokens: Tokens) -> MessageCounts:
        """The counts that matter for ``tokens``, now."""
        return await self.read_named_counts(self.count_names(tokens, None))

    async def read_named_counts(self, names: tuple[bytes, ...]) -> MessageCounts:
        """The counts of ``names``, now."""
        rows, totals = await self._counts.look_up(names)
        vocabulary = await self._counts.vocabulary_counts() if self._classifier.needs_vocabulary else None
        growth = self._counts.half_life.growth(self._clock())
        return MessageCounts(names, rows, totals, vocabulary, growth, await self.first_scores())

    async def first_scores(self) -> FirstScores:
        """Those that budgets need; none where there is no budget."""
        return await self._counts.first_scores() if self._has_budgets else self._no_first_scores

    def check(self, message_key: str, tokens: Tokens, reading: MessageCounts) -> Check:
        """The check of a message, by its counts at that moment."""
        count = len(tokens.head) + len(tokens.body)
        bins, sums = reading.rows[count : count + len(SCORE_BINS)], reading.rows[count + len(SCORE_BINS) :]
        totals, unit = reading.totals, WEIGHT_ONE * reading.growth
        counted = FeatureCounts(reading.rows[:count], sums, totals, reading.vocabulary_counts, unit)
        score = self._classifier.score(tokens, counted)
        probability = self._calibration.probability(score.log_odds, bins, totals, unit)
        state = self._model_state(totals)
        thresholds = self.thresholds(self._policy.default_policy, reading.first_scores)
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
            ScoreCounts(reading.names, reading.rows, reading.growth),  # not the vocabulary: a check may wait
        )

    def decide_again(self, check: Check, totals: Totals, first_scores: FirstScores) -> Check:
        """The same score, decided by the messages that are known now and the thresholds of now."""
        thresholds = self.thresholds(self._policy.default_policy, first_scores)
        return decide_check(replace(check, state=self._model_state(totals)), thresholds)

    def _model_state(self, totals: Totals) -> ModelState:
        """The same one until something is learned."""
        if self._cached_state[0] != totals.messages:
            learned = dict(zip(CLASSES, totals.messages, strict=True))
            self._cached_state = totals.messages, ModelState(learned, self._policy.min_learned)
        return self._cached_state[1]

    def thresholds(self, policy: ThresholdPolicy, first_scores: FirstScores) -> Thresholds:
        """Those of now."""
        return self._promises_and_thresholds(policy, first_scores)[1]

    def _promises_and_thresholds(
        self, policy: ThresholdPolicy, first_scores: FirstScores
    ) -> tuple[Mapping[float, BudgetPromise], Thresholds]:
        """What is promised, and the thresholds, found anew only when the first scores of ham have changed."""
        changes = first_scores["ham"].change_count
        if (
            self._threshold_cache is None
            or self._threshold_cache[0] is not first_scores
            or self._threshold_cache[1] != changes
        ):
            self._threshold_cache = first_scores, changes, {}
        found = self._threshold_cache[2].get(policy)
        if found is None:
            promised = policy.budget_promises(first_scores)
            found = self._threshold_cache[2][policy] = promised, policy.resolve_thresholds(promised)
        return found

    def first_score(self, check: Check, reading: MessageCounts, at: float) -> FirstScore:
        """What is kept of a message's check before its first label, which comes at ``at`` (seconds)."""
        found: dict[float, bool] = {}
        for policy in (self._policy.default_policy, *self._policy.other_policies):
            promised, _ = self._promises_and_thresholds(policy, reading.first_scores)
            for rate, spam in spam_by_budget(policy, promised, check.probability).items():
                found[rate] = found.get(rate, False) or (spam and not check.state.is_learning)
        return FirstScore(at, check.id, check.probability, tuple(sorted(found.items())))

    def weigh_lesson(
        self, tokens: Tokens, score: float, label: str, reading: MessageCounts, known: LedgerEntry | None
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """The weight and the sums to learn; of a message that is ``known``, its first score counts, as before."""
        totals, growth = reading.totals, reading.growth
        first: Sums = self._calibration.lesson_sums(score, totals, growth)
        if known:
            first = [each for each in known.sums if each[0] in SCORE_BINS]
        weight, sums = self._classifier.weigh_lesson(
            tokens, score, label, totals, certain=known is not None, growth=growth
        )
        return weight, (*first, *sums)

    def weigh_autolearned_lesson(
        self, tokens: Tokens, score: float, label: str, reading: MessageCounts, share: float
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """The weight and the sums to learn where no person gave the label: a ``share`` of the weight.

        Nothing for the calibration: what the model said of itself is no evidence that it was right.
        """
        return self._classifier.weigh_autolearned_lesson(
            tokens, score, label, reading.totals, share, reading.growth
        )


def decide_check(check: Check, thresholds: Thresholds) -> Check:
    """The same check as these thresholds decide."""
    verdict, reason = decide_verdict(check.probability, thresholds, check.state)
    return replace(check, verdict=verdict, reason=reason, thresholds=thresholds)


def counts_after_lesson(reading: MessageCounts, old: LedgerEntry | None, new: LedgerEntry | None) -> MessageCounts:
    """The same reading once ``old`` is taken back and ``new`` is added, if nobody else changes anything."""
    if new and not old and new.tokens == reading.names[: len(new.tokens)]:
        return _counts_after_new_entry(reading, new)
    counts = ClassCounts()
    counts.set_counts(reading.names, reading.rows)
    counts.totals = reading.totals
    if old:
        counts.subtract(old.tokens, CLASSES.index(old.label), old.weight, old.sums)
    if new:
        counts.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)
    return replace(reading, rows=counts.look_up(reading.names), totals=counts.totals)


def _counts_after_new_entry(reading: MessageCounts, new: LedgerEntry) -> MessageCounts:
    """As ``counts_after_lesson`` of what is new, whose tokens are those of the reading: a tenth of the time."""
    count, column, rows = len(new.tokens), CLASSES.index(new.label), reading.rows.copy()
    mine, others = rows[:count, column], [other for other in range(len(CLASSES)) if other != column]
    elsewhere = rows[:count, others[0]] > 0
    for other in others[1:]:
        elsewhere |= rows[:count, other] > 0
    known = np.count_nonzero((mine > 0) | elsewhere)
    mine += new.weight
    grown = int(np.count_nonzero((mine > 0) | elsewhere) - known)
    sums = reading.names[count:]
    for name, amount in new.sums:
        if name in sums:
            rows[count + sums.index(name), column] += amount
    totals = reading.totals.with_lesson(column, new.weight * count, grown)
    return MessageCounts(
        reading.names, rows, totals, reading.vocabulary_counts, reading.growth, reading.first_scores
    )
