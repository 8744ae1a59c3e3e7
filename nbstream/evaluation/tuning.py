"""What other thresholds would have done to labelled messages: errors, costs, changes of verdicts.

Rules: pure. P(spam) is that before the first label of each message, so no message is scored anew. What was
labelled while the model was learning may be left out: its P(spam) says nothing about the mail of today. The
verdict follows from the thresholds alone. Rejected mail counts as called spam; spam with any other verdict, also
unsure, counts as missed. Infinite thresholds are never reached.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.evaluation import measures
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.evaluation.measures import FloatArray, IntervalEstimate
    from nbstream.policy.thresholds import PrequentialScores, ScoreWindow
    from nbstream.policy.verdict import Thresholds

    IntArray: TypeAlias = NDArray[np.int64]

_CLASS_EDGES = (0.0, 0.0001, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 0.9999)
_VERDICTS = (Verdict.HAM, Verdict.UNSURE, Verdict.SPAM, Verdict.REJECT)


@dataclass(frozen=True, slots=True)
class LabelledSample:
    """The P(spam) of labelled messages: of all ham and of all spam, the lowest first.

    ``left_out`` is how many messages are no part of it, because they were labelled while the model was learning.
    """

    hams: FloatArray
    spams: FloatArray
    left_out: int = 0

    @classmethod
    def from_prequential_scores(
        cls, prequential_scores: PrequentialScores, learned_at: float = -math.inf
    ) -> LabelledSample:
        """Return all messages whose scores are stored, and which were labelled after ``learned_at``."""
        hams, spams = (_labelled_after(prequential_scores[label], learned_at) for label in ("ham", "spam"))
        stored = len(prequential_scores["ham"]) + len(prequential_scores["spam"])
        return cls(hams, spams, stored - len(hams) - len(spams))


def _labelled_after(window: ScoreWindow, at: float) -> FloatArray:
    """Return P(spam) of what was labelled after a time, the lowest first.

    All are sorted already: the few that came before are taken out, each at its own place.
    """
    everything = np.array(window.ascending_probabilities, dtype=np.float64)
    before = np.sort(np.array(window.probabilities_until(at), dtype=np.float64))
    equal_before = np.arange(len(before)) - np.searchsorted(before, before)
    return np.delete(everything, np.searchsorted(everything, before) + equal_before)


@dataclass(frozen=True, slots=True)
class ErrorCounts:
    """The errors at several thresholds.

    ``ham`` and ``spam`` are the numbers of messages. ``ham_called_spam`` and ``spam_missed`` are counts of shape
    (thresholds,).
    """

    ham: int
    spam: int
    ham_called_spam: IntArray
    spam_missed: IntArray

    def ham_called_spam_rate(self) -> IntervalEstimate:
        """Return the share of ham called spam, with its interval; the share is nan without ham."""
        return _estimate_share(self.ham_called_spam, self.ham)

    def spam_missed_rate(self) -> IntervalEstimate:
        """Return the share of spam missed, with its interval; the share is nan without spam."""
        return _estimate_share(self.spam_missed, self.spam)

    def relative_cost(self, ratio: float | FloatArray) -> IntervalEstimate:
        """Return the cost of the errors, with its interval, if a lost ham costs as much as ``ratio`` missed spam.

        It is a share of the cost without any filter, which misses all spam: (ratio x ham called spam + spam
        missed) / spam, the inverse of the total cost ratio (Androutsopoulos et al., "An experimental comparison of
        naive Bayesian and keyword-based anti-spam filtering", 2000). The numbers of ham and spam are taken as
        given. It is nan without ham or without spam.
        """
        weight_of_ham = ratio * np.float64(self.ham / self.spam if self.spam else math.nan)
        return measures.sum_estimate(self.ham_called_spam_rate().scaled(weight_of_ham), self.spam_missed_rate())


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """The numbers of ham and of spam that get one verdict."""

    ham: int
    spam: int


@dataclass(frozen=True, slots=True)
class ScoreClass:
    """One class of a histogram: how many ham and spam have P(spam) from ``low`` on, and below ``high``.

    The last class also has those with a P(spam) of 1.
    """

    low: float
    high: float
    ham: int
    spam: int


def score_classes(sample: LabelledSample) -> list[ScoreClass]:
    """Return the histogram of a sample, whose classes are the same for every sample."""
    edges = np.array(_CLASS_EDGES)
    counts = (_counts_between(edges, p).tolist() for p in (sample.hams, sample.spams))
    return list(map(ScoreClass, _CLASS_EDGES, (*_CLASS_EDGES[1:], 1.0), *counts))


def count_errors(sample: LabelledSample, thresholds: FloatArray) -> ErrorCounts:
    """Return the errors if a message is called spam from each of ``thresholds`` on."""
    hams, spams = sample.hams, sample.spams
    return ErrorCounts(
        ham=len(hams),
        spam=len(spams),
        ham_called_spam=len(hams) - np.searchsorted(hams, thresholds).astype(np.int64),
        spam_missed=np.searchsorted(spams, thresholds).astype(np.int64),
    )


def count_errors_at(sample: LabelledSample, thresholds: Thresholds) -> ErrorCounts:
    """Return the errors for one set of thresholds; the arrays have shape (1,)."""
    return count_errors(sample, np.array([thresholds.spam]))


def count_unsure(sample: LabelledSample, thresholds: Thresholds) -> VerdictCounts:
    """Return how many messages would have been called unsure."""
    return _count_between(sample, thresholds.unsure, thresholds.spam)


def count_rejected(sample: LabelledSample, thresholds: Thresholds) -> VerdictCounts:
    """Return how many messages would have been refused."""
    return _count_between(sample, math.inf if thresholds.reject is None else thresholds.reject, math.inf)


def _count_between(sample: LabelledSample, low: float, high: float) -> VerdictCounts:
    edges = np.array([low, high])
    ham, spam = (int(_counts_between(edges, p)[0]) for p in (sample.hams, sample.spams))
    return VerdictCounts(ham, spam)


@dataclass(frozen=True, slots=True)
class VerdictChanges:
    """The changes of verdicts by other thresholds.

    ``messages`` is the size of the sample; ``counts`` has the number of messages by label, verdict before and
    verdict after, without those whose verdict does not change.
    """

    messages: int
    counts: Mapping[tuple[str, str, str], int]

    def called_spam_change(self, label: str) -> int:
        """Return how many more messages of one label are called spam; below zero for fewer."""
        return sum(
            count * (Verdict(after).is_spam - Verdict(before).is_spam)
            for (changed_label, before, after), count in self.counts.items()
            if changed_label == label
        )

    def to_sentence(self) -> str:
        """Return the changes in words, without the subject of the sentence."""
        ham, spam = self.called_spam_change("ham"), self.called_spam_change("spam")
        changes = []
        if ham:
            changes.append(f"moved {-ham:,} ham out of spam" if ham < 0 else f"moved {ham:,} more ham into spam")
        if spam:
            changes.append(f"let {-spam:,} more spam through" if spam < 0 else f"caught {spam:,} more spam")
        return f"would have {', '.join(changes) or 'called the same messages spam'}, of the last {self.messages:,}"


def compare_verdicts(sample: LabelledSample, before: Thresholds, after: Thresholds) -> VerdictChanges:
    """Return the changes of verdicts from the thresholds ``before`` to the thresholds ``after``."""
    # From one threshold to the next all messages have the same two verdicts.
    edges = np.unique([0.0, *_edges(before), *_edges(after)])
    verdicts = [(str(_verdict_at(p, before)), str(_verdict_at(p, after))) for p in edges.tolist()]
    counts: Counter[tuple[str, str, str]] = Counter()
    for label, probabilities in (("ham", sample.hams), ("spam", sample.spams)):
        for (verdict_before, verdict_after), count in zip(
            verdicts, _counts_between(edges, probabilities).tolist(), strict=True
        ):
            if verdict_before != verdict_after and count:
                counts[label, verdict_before, verdict_after] += count
    return VerdictChanges(len(sample.hams) + len(sample.spams), counts)


def _edges(thresholds: Thresholds) -> list[float]:
    """Return the P(spam) from which each verdict but ham is given."""
    return [thresholds.unsure, thresholds.spam, thresholds.reject or math.inf]  # always in this order


def _verdict_at(p: float, thresholds: Thresholds) -> Verdict:
    """Return the verdict on a message with this P(spam), of a model that is ready."""
    return _VERDICTS[bisect_right(_edges(thresholds), p)]


def _counts_between(edges: FloatArray, ascending: FloatArray) -> IntArray:
    """Return how many values there are from each edge to the next one, and from the last one on."""
    starts = np.searchsorted(ascending, edges).astype(np.int64)
    return np.diff(starts, append=len(ascending))


def _estimate_share(counts: IntArray, n: int) -> IntervalEstimate:
    share = counts / n if n else np.full(len(counts), math.nan)
    return measures.IntervalEstimate(share, *measures.wilson_interval(counts.astype(np.float64), n))
