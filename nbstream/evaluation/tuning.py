"""What other thresholds would have done to messages whose labels are known: errors, costs, moves between verdicts.

Rules: pure, over P(spam) as it was before each message's first label, so nothing is scored anew; a message is
called what the thresholds say, whatever the model knew then. Called spam is refused mail too; spam missed is spam
with any other verdict, unsure too. Infinite thresholds are never reached.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.evaluation import intervals
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.evaluation.measures import BoolArray, FloatArray
    from nbstream.policy.first_scores import FirstScores
    from nbstream.policy.verdict import Thresholds

    IntArray: TypeAlias = NDArray[np.int64]
    IntervalEstimate: TypeAlias = tuple[FloatArray, FloatArray, FloatArray]
    """A share, and the lower and the upper end of its interval."""

_VERDICTS = (Verdict.HAM, Verdict.UNSURE, Verdict.SPAM, Verdict.REJECT)


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """Labelled messages in order of learning; both arrays have one value a message."""

    is_spam: BoolArray
    probability: FloatArray

    @classmethod
    def from_first_scores(cls, first_scores: FirstScores) -> LabelledSample:
        """All that is stored."""
        ordered = first_scores.labelled_probabilities()
        return cls(
            np.array([label == "spam" for _, label, _ in ordered], dtype=np.bool_),
            np.array([probability for *_, probability in ordered], dtype=np.float64),
        )

    @property
    def hams(self) -> FloatArray:
        """P(spam) of the ham, lowest first."""
        return np.sort(self.probability[~self.is_spam])

    @property
    def spams(self) -> FloatArray:
        """P(spam) of the spam, lowest first."""
        return np.sort(self.probability[self.is_spam])


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """Ham called spam and spam missed at several thresholds: counts of shape (thresholds), and of how many."""

    ham: int
    spam: int
    ham_called_spam: IntArray
    spam_missed: IntArray

    def ham_called_spam_rate(self) -> IntervalEstimate:
        """The share of ham called spam, and the ends of its interval; nan without ham."""
        return _estimate_share(self.ham_called_spam, self.ham)

    def spam_missed_rate(self) -> IntervalEstimate:
        """The share of spam missed, and the ends of its interval; nan without spam."""
        return _estimate_share(self.spam_missed, self.spam)

    def relative_cost(self, ratio: float | FloatArray) -> IntervalEstimate:
        """What the errors cost where a ham lost costs ``ratio`` spam passed, and the ends of its interval.

        As a share of what no filter costs, all spam passed: (ratio x ham called spam + spam missed) / spam, the
        inverse of the total cost ratio (Androutsopoulos et al., "An experimental comparison of naive Bayesian and
        keyword-based anti-spam filtering", 2000). The numbers of ham and of spam are taken as given. nan without
        ham or without spam.
        """
        worth = ratio * np.float64(self.ham / self.spam if self.spam else math.nan)
        lost, low, high = self.ham_called_spam_rate()
        missed = self.spam_missed_rate()
        ends = intervals.sum_interval((worth * lost, worth * low, worth * high), missed)
        return worth * lost + missed[0], *ends


@dataclass(frozen=True, slots=True)
class UnsureCounts:
    """How many of each label are called unsure."""

    ham: int
    spam: int


def count_errors(sample: LabelledSample, thresholds: FloatArray) -> ErrorCounts:
    """What calling spam from each of ``thresholds`` on would have done."""
    hams, spams = sample.hams, sample.spams
    return ErrorCounts(
        len(hams), len(spams),
        len(hams) - np.searchsorted(hams, thresholds).astype(np.int64),
        np.searchsorted(spams, thresholds).astype(np.int64),
    )  # fmt: skip


def count_errors_at(sample: LabelledSample, thresholds: Thresholds) -> ErrorCounts:
    """The same for one set of thresholds; shapes are (1)."""
    return count_errors(sample, np.array([thresholds.spam]))


def count_unsure(sample: LabelledSample, thresholds: Thresholds) -> UnsureCounts:
    """How many would have been unsure."""
    found = verdict_numbers(sample, thresholds) == _VERDICTS.index(Verdict.UNSURE)
    return UnsureCounts(int((found & ~sample.is_spam).sum()), int((found & sample.is_spam).sum()))


def verdict_numbers(sample: LabelledSample, thresholds: Thresholds) -> IntArray:
    """The verdict on each message, as ``decide`` of a taught model says, by its place from ham to reject."""
    edges = [thresholds.unsure, thresholds.spam, thresholds.reject or math.inf]  # in order, as thresholds are
    return np.searchsorted(edges, sample.probability, side="right").astype(np.int64)


@dataclass(frozen=True, slots=True)
class VerdictChanges:
    """What other thresholds change: messages by label, verdict before and verdict after, of so many."""

    messages: int
    counts: Mapping[tuple[str, str, str], int]

    def called_spam_change(self, label: str) -> int:
        """How many more of one label are called spam; below zero for fewer."""
        return sum(
            count * (Verdict(after).is_spam - Verdict(before).is_spam)
            for (own, before, after), count in self.counts.items()
            if own == label
        )

    def to_sentence(self) -> str:
        """In words, for the middle of a sentence."""
        ham, spam = self.called_spam_change("ham"), self.called_spam_change("spam")
        told = []
        if ham:
            told.append(f"moved {-ham:,} ham out of spam" if ham < 0 else f"moved {ham:,} more ham into spam")
        if spam:
            told.append(f"let {-spam:,} more spam through" if spam < 0 else f"caught {spam:,} more spam")
        return f"would have {', '.join(told) or 'called the same messages spam'}, of the last {self.messages:,}"


def compare_verdicts(sample: LabelledSample, before: Thresholds, after: Thresholds) -> VerdictChanges:
    """What ``after`` changes against ``before``."""
    was, would = verdict_numbers(sample, before), verdict_numbers(sample, after)
    counts = {
        (label, str(_VERDICTS[one]), str(_VERDICTS[other])): int((own & (was == one) & (would == other)).sum())
        for label, own in (("ham", ~sample.is_spam), ("spam", sample.is_spam))
        for one, other in permutations(range(len(_VERDICTS)), 2)
    }
    return VerdictChanges(len(was), {move: count for move, count in counts.items() if count})


def _estimate_share(counts: IntArray, n: int) -> IntervalEstimate:
    share = counts / n if n else np.full(len(counts), math.nan)
    return share, *intervals.wilson_interval(counts.astype(np.float64), n)
