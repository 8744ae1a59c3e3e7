"""From tokens to a check: read the counts, score, calibrate and decide. Also how much a lesson weighs.

Checks wait for their turn, so that the event loop can do other work between two of them. A check holds the event
loop for about a millisecond, a reply or a command to the next hop for a hundredth of that. Where the checks of a
burst follow each other directly, each of the ten steps of a message through the SMTP listener waits for all of
them: the slowest hundredth of the messages took 27 ms instead of 18 ms.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from dataclasses import replace
from operator import is_
from typing import TYPE_CHECKING, NamedTuple

from nbstream.bayes.calibration import PROBABILITY_BOUNDS, blend_sums
from nbstream.bayes.clues import Clue, Score, TokenClues
from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import Totals
from nbstream.bayes.kinds import KindClassifier, KindScores
from nbstream.bayes.lesson_weight import lesson_weight
from nbstream.bayes.multinomial import TokenCounts
from nbstream.bayes.novelty import CHECK_SUMS, Discount, NoveltyDiscount
from nbstream.engine.score import pack_calibration
from nbstream.filter.message_counts import MessageCounts, counts_after_lesson
from nbstream.numpy_on_demand import np
from nbstream.policy.autolearn import (
    LIMIT_CLUE,
    counts_implicit_ham,
    is_settled,
    limit_log_odds,
    limit_probability,
    model_state,
)
from nbstream.policy.check import Check, OwnModelUse
from nbstream.policy.thresholds import PrequentialScores
from nbstream.policy.verdict import ModelState, decide_verdict
from nbstream.tokens.tokens import Tokens

if TYPE_CHECKING:
    from collections.abc import Awaitable, Sequence

    from numpy.typing import NDArray

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.filter.message_counts import CountSource
    from nbstream.filter.results import FilterPolicy
    from nbstream.policy.thresholds import ThresholdPolicy
    from nbstream.policy.verdict import Thresholds
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.tokens.tokens import TokenList


class _Likelihood(NamedTuple):
    """P(spam), P(spam) in full, without a discount, and the discount if there is one."""

    probability: float
    full: float
    discount: Discount | None = None


class Scorer:
    """Scores tokens with the counts that people taught, and where it ``uses_automatic`` counts with those.

    What that may change is bounded; see ``policy.autolearn``.
    Where ``counts`` are those of an own model, ``parents`` are the counts of the levels above it, the common model
    first: what was learned without people, the budgets and the kinds are those of the common model.
    ``is_own_missing``: there is an own
    model, but its counts are not to be had.
    """

    def __init__(  # noqa: PLR0913 - most have a default, and are named where they are given
        self,
        classifier: Classifier,
        calibration: Calibration,
        counts: CountSource,
        policy: FilterPolicy,
        *,
        uses_automatic: bool = False,
        parents: tuple[CountSource, ...] = (),
        is_own_missing: bool = False,
    ) -> None:
        self._classifier = classifier
        self._calibration = calibration
        self._novelty = NoveltyDiscount()
        self._packed_calibration: tuple[NDArray[np.int64], Totals, NDArray[np.float64], bytes] | None = None
        self._counts = counts
        self._common = parents[0] if parents else counts
        self._own = (*parents[1:], counts) if parents else ()
        self._is_own_missing = is_own_missing
        self._policy = policy
        self._uses_automatic = uses_automatic
        self._no_prequential_scores = PrequentialScores()
        self._threshold_cache: tuple[PrequentialScores, int, dict[ThresholdPolicy, Thresholds]] | None = None
        self.has_budgets = bool(policy.budget_rates)
        """Whether any policy has a budget, which prequential scores are for."""
        self._kinds = KindClassifier(policy.kinds) if policy.kinds else None
        self._blended: tuple[list[NDArray[np.int64]], list[object], NDArray[np.int64], Totals] | None = None
        self._cached_state: tuple[tuple[tuple[int, ...], ...], ModelState] = (), ModelState({})

    async def read_counts(self, names: Sequence[bytes]) -> MessageCounts:
        """Read the counts of ``names``, which begin with the tokens of a message; see ``count_names``."""
        common = await self._read_level(names, self._common, await self._read_automatic(names))
        if not self._own:
            return common
        levels = [common, *[await self._read_level(names, level) for level in self._own]]
        return levels[-1]._replace(parents=tuple(levels[:-1]))

    async def _read_level(
        self, names: Sequence[bytes], source: CountSource, automatic: TokenCounts | None = None
    ) -> MessageCounts:
        rows, totals = await source.look_up(names)
        sums = await source.sums(CHECK_SUMS)
        return MessageCounts(names, rows, sums, totals, await self.prequential_scores(), automatic)

    async def _read_own_level(self, tokens: TokenList, source: CountSource) -> MessageCounts:
        """Read the counts of a message's tokens alone, which names nothing one by one."""
        rows, totals = await source.look_up(tokens)
        sums = await source.sums(CHECK_SUMS)
        return MessageCounts((), rows, sums, totals, self._no_prequential_scores)

    async def _read_automatic(self, names: Sequence[bytes]) -> TokenCounts | None:
        if not self._uses_automatic:
            return None
        _, totals = await self._common.look_up_columns((), automatic=True)
        if not any((*totals.messages, *totals.token_weights)):
            return None
        return TokenCounts(*await self._common.look_up_columns(names, automatic=True))

    async def prequential_scores(self) -> PrequentialScores:
        """Return the prequential scores that budgets need; there are none where no policy has a budget."""
        return await self._common.prequential_scores() if self.has_budgets else self._no_prequential_scores

    def check_now(self, message_key: str, tokens: Tokens) -> Awaitable[Check]:
        """Return the check of a message by the counts of this moment, with its kind where kinds are configured."""
        check = self._check_now(message_key, tokens)
        return self._with_kinds(self._kinds, check, tokens) if self._kinds else check

    async def _with_kinds(self, kinds: KindClassifier, waiting: Awaitable[Check], tokens: Tokens) -> Check:
        check = await waiting
        # Spam has no kind, but another policy may decide that it is none.
        if check.verdict.is_spam and not self._policy.other_policies:
            return check
        return replace(check, kinds=await self._score_kinds(kinds, tokens))

    async def _score_kinds(self, kinds: KindClassifier, tokens: Tokens) -> KindScores:
        """Return how probable each kind is, by what people taught alone."""
        return kinds.score(tokens, *await self._common.look_up_columns(tokens.all.names))

    async def _check_now(self, message_key: str, tokens: Tokens) -> Check:
        # Most checks have no own models: nothing is called for them then.
        counts, levels = self._common.in_memory, await self._taught_levels() if self._own else []
        if counts is not None and (table := counts.native_table):
            own = [await self._read_own_level(tokens.all, level) for level in levels] if levels else []
            own_counts = tuple([_token_counts(tokens, level) for level in own]) if own else ()
            totals = counts.totals
            sums, people = self._blend(counts.sums(CHECK_SUMS), totals, own)
            calibration = self._pack_calibration(sums, people)
            score = self._classifier.score_in_table(tokens, table, totals, own_counts, calibration)
            if score:
                likelihood = self._likelihood_of(score, sums, people)
                if not self._asks_automatic(people, likelihood.full):
                    prequential_scores = (
                        await self.prequential_scores() if self.has_budgets else self._no_prequential_scores
                    )
                    state = self._model_state(people)
                    use = self._use_of(own)
                    return self._decide(message_key, score, likelihood, state, prequential_scores, use)
        return self.check(message_key, tokens, await self.read_counts(tokens.all.names))

    async def _taught_levels(self) -> list[CountSource]:
        """Return the own models that anything was taught to; the others change no score."""
        return [level for level in self._own if any((await level.look_up(()))[1].messages)]

    def _blend(
        self, sums: NDArray[np.int64], totals: Totals, own: Sequence[MessageCounts]
    ) -> tuple[NDArray[np.int64], Totals]:
        """Return the sums of the calibration, and the totals with the messages of all levels.

        ``sums`` and ``totals`` are those of the common model. What is returned is the same until one of them, or
        of ``own``, is another.
        """
        if not own:
            return sums, totals
        arrays = [sums, *[one.sums for one in own]]
        basis: list[object] = [totals, *[one.totals.messages for one in own]]
        last = self._blended
        if last is None or basis != last[1] or not all(map(is_, arrays, last[0])):
            last = arrays, basis, _sums_of_levels(sums, own), _totals_of_levels(totals, own)
            self._blended = last
        return last[2:]

    def _use_of(self, own: Sequence[MessageCounts]) -> OwnModelUse:
        if self._is_own_missing:
            return OwnModelUse.UNAVAILABLE
        return OwnModelUse.USED if own and any(any(one.totals.messages) for one in own) else OwnModelUse.NONE

    def _asks_automatic(self, people: Totals, probability: float) -> bool:
        """Return whether automatic learning has a say in a check that is ``probability`` by people alone."""
        if not self._uses_automatic:
            return False
        return counts_implicit_ham(people, self._policy.min_learned) or not is_settled(probability)

    def check(self, message_key: str, tokens: Tokens, counts: MessageCounts) -> Check:
        """Return the check of a message by these counts."""
        common, own = counts.common, tuple([_token_counts(tokens, level) for level in counts.own])
        token_counts = _token_counts(tokens, common)
        sums, people = self._blend(common.sums, common.totals, counts.own)
        automatic, state = common.autolearned, self._model_state(people)
        if automatic and counts_implicit_ham(people, self._policy.min_learned):
            state = self._model_state(people, automatic.totals)
            messages = tuple(state.learned[label] for label in CLASSES)
            token_counts = _counts_of_both(token_counts, automatic, messages)
            people, automatic = token_counts.totals, None
        score = self._classifier.score(tokens, token_counts, own, self._pack_calibration(sums, people))
        likelihood = self._likelihood_of(score, sums, people)
        probability = likelihood.full
        if automatic and not is_settled(probability):
            token_counts = _counts_of_both(token_counts, automatic, common.totals.messages)
            by_both = self._classifier.score(tokens, token_counts, own)

            def probability_of(log_odds: float) -> float:
                return self._calibration.probability(log_odds, sums, people)

            spam = self.thresholds(self._policy.default_policy, common.prequential_scores).spam
            log_odds = limit_log_odds(score.log_odds, by_both.log_odds, probability_of, spam)
            score = by_both if log_odds == by_both.log_odds else _limited_score(by_both, log_odds)
            of_both = self._likelihood(score, probability_of(log_odds), sums, people)
            limited = limit_probability(likelihood.probability, of_both.probability, spam)
            likelihood = of_both._replace(probability=limited)
        use = self._use_of(counts.own)
        return self._decide(message_key, score, likelihood, state, common.prequential_scores, use)

    def _pack_calibration(self, sums: NDArray[np.int64], people: Totals) -> bytes:
        """Return what the native library needs for P(spam): the same until something is learned."""
        last = self._packed_calibration
        if last is None or last[0] is not sums or last[1] is not people:
            pairs = self._calibration.pairs(sums)
            divisor, of_spam = self._calibration.divisor(people), self._novelty.of_spam(sums)
            packed = pack_calibration(pairs, divisor, PROBABILITY_BOUNDS, of_spam)
            last = self._packed_calibration = sums, people, pairs, packed
        return last[3]

    def _likelihood_of(self, score: Score, sums: NDArray[np.int64], people: Totals) -> _Likelihood:
        """Return P(spam) as the native library has computed it, or as Python does."""
        if score.likelihood is None:
            probability = self._calibration.probability(score.log_odds, sums, people)
            return self._likelihood(score, probability, sums, people)
        probability, full, left, deviations = score.likelihood
        if not deviations:
            return _Likelihood(probability, full)
        return _Likelihood(probability, full, Discount(left, score.log_odds, deviations, score.group_tokens))

    def _likelihood(
        self, score: Score, probability: float, sums: NDArray[np.int64], totals: Totals
    ) -> _Likelihood:
        """Return P(spam) with the discount of mail that is unlike learned spam; ``probability`` is without it."""
        discount = self._novelty.discount(score, sums) if probability > 0.5 else None
        if discount is None:
            return _Likelihood(probability, probability)
        left = self._calibration.probability(discount.log_odds, sums, totals)
        return _Likelihood(max(0.5, min(probability, left)), probability, discount)

    def score_by_both(self, tokens: Tokens, counts: MessageCounts, automatic: TokenCounts) -> float:
        """Return the log-odds in nats by people's counts and the automatic ones, without any bound."""
        both = _counts_of_both(_token_counts(tokens, counts), automatic, counts.totals.messages)
        return self._classifier.score(tokens, both).log_odds

    async def check_without_lesson(self, message_key: str, entry: LedgerEntry) -> Check:
        """Return the check of a learned message as if its own lesson, which wrote ``entry``, were taken back."""
        tokens = Tokens.from_all(entry.tokens)
        counts = await self.read_counts(tokens.all.names)
        return self.check(message_key, tokens, counts_after_lesson(counts, entry, None))

    def _decide(
        self,
        message_key: str,
        score: Score,
        likelihood: _Likelihood,
        state: ModelState,
        prequential_scores: PrequentialScores,
        own: OwnModelUse,
    ) -> Check:
        """Return the check of a message with this score and P(spam)."""
        thresholds = self.thresholds(self._policy.default_policy, prequential_scores)
        verdict, reason = decide_verdict(likelihood.probability, thresholds, state, likelihood.full)
        return Check(
            id=message_key,
            verdict=verdict,
            probability=likelihood.probability,
            score=score.log_odds,
            reason=reason,
            state=state,
            clues=score.clues,
            thresholds=thresholds,
            prior=score.prior,
            own=own,
            full_probability=likelihood.full,
            discount=likelihood.discount,
            group_tokens=score.group_tokens,
            tokens=score.clues.tokens,
        )

    def decide_again(self, check: Check, prequential_scores: PrequentialScores) -> Check:
        """Decide a check again where a budget may have other thresholds at this moment."""
        if not self.has_budgets:
            return check
        return decide_check(check, self.thresholds(self._policy.default_policy, prequential_scores))

    def _model_state(self, people: Totals, automatic: Totals | None = None) -> ModelState:
        """Return the state of the model: the same object until something is learned."""
        basis = people.messages, automatic.messages if automatic else ()
        if self._cached_state[0] != basis:
            self._cached_state = basis, model_state(people, self._policy.min_learned, automatic)
        return self._cached_state[1]

    def thresholds(self, policy: ThresholdPolicy, prequential_scores: PrequentialScores) -> Thresholds:
        """Return the thresholds of ``policy`` that hold now.

        They are computed again only when the prequential scores of ham have changed.
        """
        changes = prequential_scores["ham"].change_count
        cache = self._threshold_cache
        if cache is None or cache[0] is not prequential_scores or cache[1] != changes:
            cache = self._threshold_cache = prequential_scores, changes, {}
        thresholds = cache[2].get(policy)
        if thresholds is None:
            thresholds = cache[2][policy] = policy.thresholds(prequential_scores)
        return thresholds

    def weigh_lesson(
        self, check: Check, label: str, counts: MessageCounts, old_entry: LedgerEntry | None
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """Return the weight and the sums to learn of a message, by its check before the lesson.

        A message with an ``old_entry`` keeps the sums of the check before its first label.
        """
        weight = lesson_weight(check.score, label, certain=old_entry is not None)
        if old_entry:
            return weight, old_entry.sums
        sums, _ = self._blend(counts.common.sums, counts.common.totals, counts.own)
        of_score = self._calibration.lesson_sums(check.score, counts.totals)
        return weight, (*of_score, *self._novelty.lesson_sums(check.group_tokens, sums))


def _totals_of_levels(common: Totals, own: Sequence[MessageCounts]) -> Totals:
    """Return the totals of the common model with the messages of the own models as well."""
    if not own:
        return common
    messages = tuple(map(sum, zip(common.messages, *[level.totals.messages for level in own], strict=True)))
    return replace(common, messages=messages)


def _sums_of_levels(common: NDArray[np.int64], own: Sequence[MessageCounts]) -> NDArray[np.int64]:
    """Return the sums of the calibration: those of the common model, and those of the own models as well."""
    for level in own:
        common = blend_sums(common, level.sums)
    return common


def _token_counts(tokens: Tokens, counts: MessageCounts) -> TokenCounts:
    return TokenCounts(counts.rows[: len(tokens.all)], counts.totals)


def _counts_of_both(people: TokenCounts, automatic: TokenCounts, messages: tuple[int, ...]) -> TokenCounts:
    """Return the counts of what people taught and of what was learned without them together.

    ``messages`` is the number of messages of each class, which decides the prior: that of people, without whom no
    model is ready, and implicit ham where it counts. The vocabulary size is the sum of both sizes, so a token that
    both have counts twice. The result lies between the true size and twice that, and its part in the smoothing is
    the same for each class.
    """
    both = zip(people.totals.token_weights, automatic.totals.token_weights, strict=True)
    weights = tuple(a + b for a, b in both)
    vocabulary_size = people.totals.vocabulary_size + automatic.totals.vocabulary_size
    return people._replace(
        rows=people.rows + automatic.rows[: len(people.rows)],
        totals=Totals(messages, weights, vocabulary_size),
    )


def _limited_score(score: Score, log_odds: float) -> Score:
    """Return the score with ``log_odds``, and a clue for what is taken back."""
    clues, limit = score.clues, Clue(LIMIT_CLUE, log_odds - score.log_odds)
    limited_log_odds = math.fsum([score.prior, *clues.ratios.tolist(), limit.log_ratio])
    limited_clues = TokenClues(clues.tokens, clues.packed, clues.own_rows, (limit,))
    return score._replace(log_odds=limited_log_odds, clues=limited_clues)


def decide_check(check: Check, thresholds: Thresholds) -> Check:
    """Decide a check again by these thresholds."""
    verdict, reason = decide_verdict(check.probability, thresholds, check.state, check.full_probability)
    return replace(check, verdict=verdict, reason=reason, thresholds=thresholds)


class CheckQueue:
    """Lets one check begin in each turn of the event loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._busy = False

    async def wait_for_turn(self) -> None:
        """Return when it is the caller's turn: at once if no check has begun in this turn of the loop.

        A caller that is cancelled leaves the queue.
        """
        loop = asyncio.get_running_loop()
        if not self._busy:
            self._busy = True
            loop.call_soon(self._wake_next)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its caller was cancelled
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._wake_next)
                return
        self._busy = False
