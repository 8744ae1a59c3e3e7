"""From tokens to a check: read the counts, score, calibrate, decide; and what a label would make of it."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from nbstream.bayes.calibration import BINS
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, Counts
from nbstream.bayes.event_models import Counted
from nbstream.filter.results import Check
from nbstream.policy.explanation import Evidence
from nbstream.policy.first_scores import First, FirstScores
from nbstream.policy.policy import called
from nbstream.policy.verdict import ModelState, decide

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.bayes.counts import Sums, Totals
    from nbstream.filter.protocols import CountSource
    from nbstream.filter.results import Params
    from nbstream.policy.budget import Promise
    from nbstream.policy.policy import Policy
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.ledger import Entry
    from nbstream.tokens.tokenizer import Tokens


@dataclass(frozen=True, slots=True)
class Reading:
    """What is counted of a message at one moment: its tokens, the calibration's bins, the event models' sums.

    ``rows`` has the shape (names, classes), in that order; ``growth`` is that of the weights of that moment.
    ``first_scores`` are those of now, also later.
    """

    names: tuple[bytes, ...]
    rows: NDArray[np.int64]
    totals: Totals
    vocabulary: NDArray[np.int64] | None
    growth: float
    first_scores: FirstScores


class Scorer:
    """Scores tokens over one source of counts; ``clock`` gives the seconds since the epoch."""

    def __init__(
        self,
        classifier: Classifier,
        calibration: Calibration,
        counts: CountSource,
        params: Params,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._classifier = classifier
        self._calibration = calibration
        self._counts = counts
        self._params = params
        self._clock = clock
        self._no_first_scores = FirstScores()
        self._known: tuple[FirstScores, int, dict[Policy, tuple[Mapping[float, Promise], Thresholds]]] | None = (
            None
        )
        self._sums = (*BINS, *classifier.sums)
        self._with_budgets = bool(params.budgets)
        self._state: tuple[tuple[int, ...], ModelState] = (), ModelState({})

    def with_params(self, params: Params) -> Scorer:
        """The same scores, decided by other params."""
        return Scorer(self._classifier, self._calibration, self._counts, params, self._clock)

    @property
    def foresees(self) -> bool:
        """Whether the score by ``afterwards`` is to the last bit that after the change, if nobody else teaches."""
        return not self._classifier.needs_vocabulary

    def names(self, tokens: Tokens, known: Entry | None) -> tuple[bytes, ...]:
        """Whose counts matter: those of a message, and behind them what else it is ``known`` to have added."""
        names = (*tokens.head, *tokens.body, *self._sums)
        if known is None:
            return names
        return tuple(dict.fromkeys((*names, *known.tokens, *(name for name, _ in known.sums))))

    async def read(self, tokens: Tokens) -> Reading:
        """The counts that matter for ``tokens``, now."""
        return await self.read_names(self.names(tokens, None))

    async def read_names(self, names: tuple[bytes, ...]) -> Reading:
        """The counts of ``names``, now."""
        rows, totals = await self._counts.look_up(names)
        vocabulary = await self._counts.vocabulary() if self._classifier.needs_vocabulary else None
        growth = self._counts.half_life.growth(self._clock())
        return Reading(names, rows, totals, vocabulary, growth, await self.first_scores())

    async def first_scores(self) -> FirstScores:
        """Those that budgets need; none where there is no budget."""
        return await self._counts.first_scores() if self._with_budgets else self._no_first_scores

    def check(self, message_key: str, tokens: Tokens, reading: Reading) -> Check:
        """The check of a message, by its counts at that moment."""
        count = len(tokens.head) + len(tokens.body)
        bins, sums = reading.rows[count : count + len(BINS)], reading.rows[count + len(BINS) :]
        totals, unit = reading.totals, WEIGHT_ONE * reading.growth
        counted = Counted(reading.rows[:count], sums, totals, reading.vocabulary, unit)
        score = self._classifier.score(tokens, counted)
        probability = self._calibration.probability(score.log_odds, bins, totals, unit)
        state = self._state_of(totals)
        thresholds = self.thresholds(self._params.policy, reading.first_scores)
        verdict, reason = decide(probability, thresholds, state)
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
            Evidence(reading.names, reading.rows, reading.growth),  # not the vocabulary: a check may wait
        )

    def settled(self, check: Check, totals: Totals, first_scores: FirstScores) -> Check:
        """The same score, decided by the messages that are known now and the thresholds of now."""
        thresholds = self.thresholds(self._params.policy, first_scores)
        return decided(replace(check, state=self._state_of(totals)), thresholds)

    def _state_of(self, totals: Totals) -> ModelState:
        """The same one until something is learned."""
        if self._state[0] != totals.messages:
            learned = dict(zip(CLASSES, totals.messages, strict=True))
            self._state = totals.messages, ModelState(learned, self._params.min_learned)
        return self._state[1]

    def thresholds(self, policy: Policy, first_scores: FirstScores) -> Thresholds:
        """Those of now."""
        return self._found(policy, first_scores)[1]

    def _found(self, policy: Policy, first_scores: FirstScores) -> tuple[Mapping[float, Promise], Thresholds]:
        """What is promised, and the thresholds, found anew only when the first scores of ham have changed."""
        changes = first_scores["ham"].changes
        if self._known is None or self._known[0] is not first_scores or self._known[1] != changes:
            self._known = first_scores, changes, {}
        found = self._known[2].get(policy)
        if found is None:
            promised = policy.promises(first_scores)
            found = self._known[2][policy] = promised, policy.thresholds_by(promised)
        return found

    def first(self, check: Check, reading: Reading, at: float) -> First:
        """What is kept of a message's check before its first label, which comes at ``at`` (seconds)."""
        found: dict[float, bool] = {}
        for policy in (self._params.policy, *self._params.others):
            promised, _ = self._found(policy, reading.first_scores)
            for rate, spam in called(policy, promised, check.probability).items():
                found[rate] = found.get(rate, False) or (spam and not check.state.learning)
        return First(at, check.id, check.probability, tuple(sorted(found.items())))

    def lesson(
        self, tokens: Tokens, score: float, label: str, reading: Reading, known: Entry | None
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """The weight and the sums to learn; of a message that is ``known``, its first score counts, as before."""
        totals, growth = reading.totals, reading.growth
        first: Sums = self._calibration.lesson(score, totals, growth)
        if known:
            first = [each for each in known.sums if each[0] in BINS]
        weight, sums = self._classifier.lesson(
            tokens, score, label, totals, certain=known is not None, growth=growth
        )
        return weight, (*first, *sums)

    def auto_lesson(
        self, tokens: Tokens, score: float, label: str, reading: Reading, share: float
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """The weight and the sums to learn where no person gave the label: a ``share`` of the weight.

        Nothing for the calibration: what the model said of itself is no evidence that it was right.
        """
        return self._classifier.auto_lesson(tokens, score, label, reading.totals, share, reading.growth)


def decided(check: Check, thresholds: Thresholds) -> Check:
    """The same check as these thresholds decide."""
    verdict, reason = decide(check.probability, thresholds, check.state)
    return replace(check, verdict=verdict, reason=reason, thresholds=thresholds)


def afterwards(reading: Reading, old: Entry | None, new: Entry | None) -> Reading:
    """The same reading once ``old`` is taken back and ``new`` is added, if nobody else changes anything."""
    if new and not old and new.tokens == reading.names[: len(new.tokens)]:
        return _added(reading, new)
    counts = Counts()
    counts.put(reading.names, reading.rows)
    counts.totals = reading.totals
    if old:
        counts.subtract(old.tokens, CLASSES.index(old.label), old.weight, old.sums)
    if new:
        counts.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)
    return replace(reading, rows=counts.look_up(reading.names), totals=counts.totals)


def _added(reading: Reading, new: Entry) -> Reading:
    """As ``afterwards`` of what is new, whose tokens are those of the reading: a tenth of the time."""
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
    totals = reading.totals.increased(column, new.weight * count, grown)
    return Reading(reading.names, rows, totals, reading.vocabulary, reading.growth, reading.first_scores)
