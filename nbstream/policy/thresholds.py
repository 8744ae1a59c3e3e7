"""A policy: it makes thresholds from the configuration and from the prequential scores of ham.

Rules: pure. A threshold is a P(spam). With a false-positive budget that for spam changes with what is learned.
"""

from __future__ import annotations

import math
import re
from array import array
from bisect import bisect_left, bisect_right, insort
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.bayes.columns import CLASSES
from nbstream.numpy_on_demand import np
from nbstream.policy.verdict import SPAM_THRESHOLD, Thresholds

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from numpy.typing import NDArray

    from nbstream.policy.verdict import ModelState


# Prequential scores: the P(spam) that messages had before their first label. The recent ones are kept.
#
# Rules: pure. A prequential score belongs to a ledger entry: it goes and comes with the entry. Apart from that
# only the oldest are dropped. The order is by time, then by the packed bytes, which is also the order of a Redis
# sorted set. Therefore two copies that get the same changes, each repeated any number of times, have the same
# content.

# How repr() writes a float that is not negative; Redis reads it too.
_FLOAT_PATTERN = rb"[0-9]{1,20}(\.[0-9]{1,20})?(e[+-]?[0-9]{1,3})?"
_PACKED_PATTERN = re.compile(_FLOAT_PATTERN + rb" [0-9A-Za-z_.-]{1,100} " + _FLOAT_PATTERN)


class PrequentialScore(NamedTuple):
    """The P(spam) that one message had before its first label, ``at`` that time in seconds since the epoch."""

    at: float
    message_key: str
    probability: float

    def pack(self) -> bytes:
        """Return the bytes that are stored. The parts have spaces between them and none in them."""
        return f"{self.at!r} {self.message_key} {self.probability!r}".encode()

    @classmethod
    def unpack(cls, packed: bytes) -> PrequentialScore:
        """Return the prequential score that ``pack`` packed. Raises ``ValueError`` for anything else."""
        if not _PACKED_PATTERN.fullmatch(packed):
            raise ValueError("this is no prequential score")
        at, message_key, probability = packed.decode().split(" ")
        prequential_score = cls(float(at), message_key, float(probability))
        if not (math.isfinite(prequential_score.at) and prequential_score.probability <= 1):
            raise ValueError("this is no prequential score")
        return prequential_score


_TimeOrderKey: TypeAlias = tuple[float, bytes, float]
"""Time, packed bytes and P(spam): prequential scores are in the order of these."""


class ScoreWindow:
    """The recent prequential scores of one class."""

    def __init__(self) -> None:
        self._by_time: list[_TimeOrderKey] = []
        self._score_by_packed: dict[bytes, PrequentialScore] = {}
        self._probabilities = array("d")  # of all prequential scores, smallest first; numpy copies it at once
        self.change_count = 0
        """Grows with every change: what was computed with a smaller count is out of date."""

    def __len__(self) -> int:
        return len(self._by_time)

    def add(self, packed: bytes) -> None:
        """Add a prequential score. One that is there already stays."""
        if packed in self._score_by_packed:
            return
        prequential_score = self._score_by_packed[packed] = PrequentialScore.unpack(packed)
        insort(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        insort(self._probabilities, prequential_score.probability)
        self.change_count += 1

    def remove(self, packed: bytes) -> None:
        """Remove a prequential score if it is there."""
        prequential_score = self._score_by_packed.pop(packed, None)
        if prequential_score is None:
            return
        del self._by_time[
            bisect_left(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        ]
        del self._probabilities[bisect_left(self._probabilities, prequential_score.probability)]
        self.change_count += 1

    def remove_before(self, packed: bytes) -> None:
        """Remove all prequential scores that are older than this one."""
        prequential_score = PrequentialScore.unpack(packed)
        end = bisect_left(self._by_time, (prequential_score.at, packed, prequential_score.probability))
        for _, older, _ in self._by_time[:end]:
            self.remove(older)

    def keep_newest(self, count: int) -> bytes | None:
        """Remove the oldest until ``count`` are left.

        Returns the oldest that is left, or None if none was removed.
        """
        surplus = self._by_time[: max(0, len(self._by_time) - count)]
        for _, packed, _ in surplus:
            self.remove(packed)
        return self._by_time[0][1] if surplus and self._by_time else None

    def apply_step(self, step: bytes, packed: bytes) -> None:
        """Apply what a change says of one prequential score. Raises ``ValueError`` for anything else."""
        match step:
            case b"gone":
                self.remove(packed)
            case b"come":
                self.add(packed)
            case b"oldest":
                self.remove_before(packed)
            case _:
                raise ValueError(f"{step!r:.60} is no step of a prequential score")

    @property
    def ascending_probabilities(self) -> Sequence[float]:
        """P(spam) of all prequential scores, the smallest first."""
        return self._probabilities

    def last_probabilities(self, count: int) -> list[float]:
        """Return P(spam) of the last ``count`` prequential scores, at least one, in the order of time."""
        return [probability for _, _, probability in self._by_time[-count:]]

    def probabilities_until(self, at: float) -> list[float]:
        """Return P(spam) of what was labelled at that time or before, in the order of time."""
        end = bisect_right(self._by_time, at, key=lambda order_key: order_key[0])
        return [probability for _, _, probability in self._by_time[:end]]

    def time_of(self, n: int) -> float | None:
        """Return when the n-th oldest prequential score was labelled; None where there are fewer."""
        return self._by_time[n - 1][0] if 0 < n <= len(self._by_time) else None

    def scores(self) -> list[PrequentialScore]:
        """Return all prequential scores in the order of time."""
        return [self._score_by_packed[packed] for _, packed, _ in self._by_time]


class PrequentialScores:
    """The recent prequential scores of a model, by label."""

    def __init__(self) -> None:
        self._windows: Mapping[str, ScoreWindow] = {label: ScoreWindow() for label in CLASSES}

    def __getitem__(self, label: str) -> ScoreWindow:
        return self._windows[label]

    def learned_at(self, state: ModelState) -> float:
        """Return when the last class had as many messages as the model needs, as far as prequential scores tell.

        What was labelled until then had its P(spam) from a model that was still learning. Messages without a
        prequential score count as learned before those that have one: of many labels, only the newest keep theirs.
        It is -inf where the model is still learning, or had learned before the oldest prequential score.
        """
        times = []
        for label, needed in state.needed.items():
            without_score = max(0, state.learned.get(label, 0) - len(self[label]))
            if needed > without_score:
                times.append(self[label].time_of(needed - without_score))
        return -math.inf if None in times else max((at for at in times if at is not None), default=-math.inf)

    def apply_change(self, change: Mapping[bytes, bytes]) -> None:
        """Apply a change of the model. Raises ``ValueError`` for a change that cannot be read.

        It has a field for each label, such as ``first:spam``, with words and prequential scores in turn, separated
        by line feeds, in the order of the lessons: a prequential score is ``gone``, or has ``come``, or is now the
        ``oldest``.
        """
        for label, window in self._windows.items():
            if f"first:{label}".encode() in change:
                steps = change[f"first:{label}".encode()].split(b"\n")
                for step, packed in zip(steps[0::2], steps[1::2], strict=True):
                    window.apply_step(step, packed)


# A false-positive budget: the lowest threshold that keeps the share of ham called spam within a rate.
#
# Rules: pure. The result depends on the prequential scores of ham and on nothing else. Therefore all who have the
# same scores decide alike, and a message that is unlearned leaves no trace.
#
# The threshold is one order statistic (Tong, Feng, Li, "Neyman-Pearson classification algorithms and NP receiver
# operating characteristics", Science Advances 4, 2018, proposition 1). Let n be the number of ham whose
# prequential scores are kept, alpha the rate, and delta = 5 %. Let j be the largest number with
#
#     P(Binomial(n, alpha) <= j) <= delta.
#
# The threshold is just above the (j + 1)-th highest of the n scores, so that no more than j of them reach it. The
# bound: if later ham is exchangeable with the n ham, which means that any order of all of them is as probable,
# then the probability that the share of later ham above the threshold exceeds alpha is at most delta. For that
# share exceeds alpha only where j or fewer of the n scores lie above the score that a share alpha of all ham
# reaches, and each of them lies there with the probability alpha. Scores that are equal make the share only
# smaller. Even j = 0 needs ln(delta) / ln(1 - alpha) ham: 2,995 for a rate of 0.1 %.
#
# The bound needs the labels of all ham, or of ham that was chosen without a look at its score. Where people label
# errors alone, the labelled ham is not like other ham: nothing is guaranteed then, and the caller has a fixed
# threshold. This is seen by the share of the last labelled ham that was on the right side. A model that learns
# makes the old scores worse than those of today, which errs on the safe side; mail that becomes harder does not.

GUARANTEE_DELTA = 0.05
"""The probability with which a guarantee may not hold (delta)."""

_LAST_HAM = 200  # by which it is seen whether only errors are labelled
_MIN_HAM = 20  # with fewer ham that is not seen
_WRONG_SIDE_PROBABILITY = 0.5  # P(spam)
# With a smaller share of ham on the right side, labels look like corrections only; see bayes.calibration.
_MIN_RIGHT_SHARE = 0.8


class BudgetGuarantee(NamedTuple):
    """Whether a rate is guaranteed, and the P(spam) from which a message is called spam to keep it.

    ``threshold`` is None where nothing is guaranteed: ``ham_missing`` is the number of ham that are needed, or 0
    where only errors are labelled.
    """

    rate: float
    threshold: float | None
    ham_missing: int = 0

    def __str__(self) -> str:
        rate = f"{100 * self.rate:g} %"
        if self.threshold is not None:
            return f"guaranteed {rate}"
        if self.ham_missing:
            return f"needs {self.ham_missing:,} more ham to guarantee {rate}"
        return f"only errors are labelled, {rate} is not guaranteed"  # no colon: see server.feedback_mailbox


def budget_guarantees(ham: ScoreWindow, rates: Collection[float]) -> dict[float, BudgetGuarantee]:
    """Return the guarantee of each of ``rates``, shares above 0 and at most 1/2, by these scores of ham."""
    only_errors = bool(rates) and only_errors_are_labelled(ham)
    return {rate: BudgetGuarantee(rate, None) if only_errors else _guarantee(ham, rate) for rate in rates}


def _guarantee(ham: ScoreWindow, rate: float) -> BudgetGuarantee:
    allowed = allowed_false_positives(len(ham), rate)
    if allowed < 0:
        return BudgetGuarantee(rate, None, ham_needed(rate) - len(ham))
    return BudgetGuarantee(rate, math.nextafter(ham.ascending_probabilities[-1 - allowed], math.inf))


def only_errors_are_labelled(ham: ScoreWindow) -> bool:
    """Whether many of the last labelled ham had scores on the wrong side; of all ham few have."""
    probabilities = ham.last_probabilities(_LAST_HAM)
    right = sum(probability < _WRONG_SIDE_PROBABILITY for probability in probabilities)
    return len(probabilities) >= _MIN_HAM and right < _MIN_RIGHT_SHARE * len(probabilities)


def ham_needed(rate: float) -> int:
    """Return the least number n of ham that can guarantee ``rate``: (1 - rate)^n <= delta."""
    n = math.ceil(math.log(GUARANTEE_DELTA) / math.log1p(-rate))
    return n if allowed_false_positives(n, rate) >= 0 else n + 1  # the quotient was rounded


@lru_cache(maxsize=1024)
def allowed_false_positives(n: int, rate: float) -> int:
    """Return the largest j with P(Binomial(n, rate) <= j) <= delta, or -1 where there is none.

    A threshold that calls j of n ham spam keeps ``rate`` with a confidence of 1 - delta.
    """
    median = math.ceil(n * rate)  # or one less
    tails = binomial_cumulative(n, rate, median)
    return int(np.searchsorted(tails, GUARANTEE_DELTA * (1 + 1e-12), side="right")) - 1


def binomial_cumulative(n: int, rate: float, last: int) -> NDArray[np.float64]:
    """Return P(Binomial(n, rate) <= j) for j from 0 to ``last``: an array of shape (last + 1,)."""
    j = np.arange(1, last + 1)
    with np.errstate(divide="ignore"):  # beyond n the terms are 0
        log_ratios = np.log(np.maximum(n - j + 1, 0) / j) + math.log(rate) - math.log1p(-rate)
    log_terms = n * math.log1p(-rate) + np.concatenate([[0.0], np.cumsum(log_ratios)])
    cumulative: NDArray[np.float64] = np.minimum(np.cumsum(np.exp(log_terms)), 1.0)
    return cumulative


class ThresholdPolicy(NamedTuple):
    """The thresholds as the configuration has them; an infinite one is never reached.

    A ``reject`` of None refuses nothing. With ``max_false_positive_rate``, a rate above 0 and at most 1/2,
    ``spam`` is the threshold while the rate is not guaranteed.
    """

    unsure: float = 0.5
    spam: float = SPAM_THRESHOLD
    reject: float | None = None
    max_false_positive_rate: float | None = None

    def thresholds(self, prequential_scores: PrequentialScores) -> Thresholds:
        """Return the thresholds that hold with these prequential scores."""
        rates = () if self.max_false_positive_rate is None else (self.max_false_positive_rate,)
        return self.resolve_thresholds(budget_guarantees(prequential_scores["ham"], rates))

    def resolve_thresholds(self, guarantees: Mapping[float, BudgetGuarantee]) -> Thresholds:
        """Return the thresholds that hold with these guarantees, by their rates.

        A threshold for spam below ``unsure`` leaves no message unsure. The threshold for ``reject`` is never below
        that for spam.
        """
        guarantee = None if self.max_false_positive_rate is None else guarantees[self.max_false_positive_rate]
        by_budget = guarantee.threshold if guarantee else None
        spam = self.spam if by_budget is None else by_budget
        reject = None if self.reject is None else max(spam, self.reject)
        return Thresholds(min(self.unsure, spam), spam, reject, str(guarantee or ""), by_budget is not None)
