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
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.evaluation.measures import IntervalEstimate
from nbstream.numpy_on_demand import np
from nbstream.policy.thresholds import (
    ThresholdPolicy,
    budget_guarantees,
    only_errors_are_labelled,
)
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from nbstream.evaluation.measures import FloatArray
    from nbstream.policy.recipient_rules import RecipientRules
    from nbstream.policy.thresholds import PrequentialScores, ScoreWindow
    from nbstream.policy.verdict import Thresholds

    IntArray: TypeAlias = NDArray[np.int64]

_CLASS_EDGES = (0.0, 0.0001, 0.001, 0.01, 0.1, 0.3, 0.5, 0.7, 0.9, 0.99, 0.999, 0.9999)
_VERDICTS = (Verdict.HAM, Verdict.UNSURE, Verdict.SPAM, Verdict.REJECT)


class LabelledSample(NamedTuple):
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


class ErrorCounts(NamedTuple):
    """The numbers of ham and of spam, and how many of each would have had which verdict by some thresholds."""

    ham: int
    spam: int
    ham_called_spam: int
    spam_missed: int
    ham_unsure: int
    spam_unsure: int
    ham_rejected: int
    spam_rejected: int

    def ham_called_spam_rate(self) -> IntervalEstimate:
        """Return the share of ham called spam, with its interval; the share is nan without ham."""
        return IntervalEstimate.of_share(self.ham_called_spam, self.ham)

    def spam_missed_rate(self) -> IntervalEstimate:
        """Return the share of spam missed, with its interval; the share is nan without spam."""
        return IntervalEstimate.of_share(self.spam_missed, self.spam)

    def relative_cost(self, ratio: float) -> IntervalEstimate:
        """Return the cost of the errors, with its interval, if a lost ham costs as much as ``ratio`` missed spam.

        It is a share of the cost without any filter, which misses all spam: (ratio x ham called spam + spam
        missed) / spam, the inverse of the total cost ratio (Androutsopoulos et al., "An experimental comparison of
        naive Bayesian and keyword-based anti-spam filtering", 2000). The numbers of ham and spam are taken as
        given. It is nan without ham or without spam.
        """
        weight_of_ham = ratio * (self.ham / self.spam if self.spam else math.nan)
        return self.ham_called_spam_rate().scaled(weight_of_ham) + self.spam_missed_rate()


class ScoreClass(NamedTuple):
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


def count_errors(sample: LabelledSample, thresholds: Thresholds) -> ErrorCounts:
    """Return what these thresholds would have made of the sample."""
    edges = np.array(_edges(thresholds))
    of_ham, of_spam = (
        [len(p) - i for i in np.searchsorted(p, edges).tolist()] for p in (sample.hams, sample.spams)
    )
    return ErrorCounts(
        ham=len(sample.hams),
        spam=len(sample.spams),
        ham_called_spam=of_ham[1],
        spam_missed=len(sample.spams) - of_spam[1],
        ham_unsure=of_ham[0] - of_ham[1],
        spam_unsure=of_spam[0] - of_spam[1],
        ham_rejected=of_ham[2],
        spam_rejected=of_spam[2],
    )


class VerdictChanges(NamedTuple):
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


# The thresholds that are compared on the same mail: those of policies, of budgets, and fixed ones.

BUDGET_RATES = (0.05, 0.01, 0.005, 0.001, 0.0005, 0.0001)
"""False-positive budgets: shares of the ham that may be called spam."""

FIXED_THRESHOLDS = (0.5, 0.9, 0.95, 0.99, 0.999, 0.9999)
"""P(spam); each is the best one if a lost ham costs as much as 1, 9, 19, 99, 999 or 9999 missed spam."""

_DEFAULT_COST_RATIO = 19.0


class ThresholdChoice(NamedTuple):
    """One set of thresholds, what it would have done, and what it changes compared with the present one.

    ``setting`` is the line of the configuration's ``verdict`` section that sets it.
    """

    name: str
    setting: str
    thresholds: Thresholds
    error_counts: ErrorCounts
    verdict_changes: VerdictChanges

    @property
    def spam_threshold(self) -> float:
        """The P(spam) from which a message is called spam or rejected; infinite if it never is."""
        return self.thresholds.spam


class TuningResult(NamedTuple):
    """The stored prequential scores, and what each choice of thresholds would have made of them.

    ``cost_ratio`` is the cost of a lost ham, in missed spam. ``is_biased`` says that the ham of the sample is not
    like all ham (see ``policy.thresholds``). ``others`` are policies that somebody named, beside the present one.
    """

    sample: LabelledSample
    is_biased: bool
    cost_ratio: float
    present: ThresholdChoice
    others: Sequence[ThresholdChoice]
    budgets: Sequence[ThresholdChoice]
    fixed: Sequence[ThresholdChoice]

    @property
    def policies(self) -> Sequence[ThresholdChoice]:
        """The present policy, and the others."""
        return [self.present, *self.others]

    def by_threshold(self) -> list[ThresholdChoice]:
        """Return the rows of a table: the policies, and each choice with another threshold, the lowest first."""
        budgets = [choice for choice in self.budgets if math.isfinite(choice.spam_threshold)]
        policy_thresholds = {choice.spam_threshold for choice in self.policies}
        fixed = [choice for choice in self.fixed if choice.spam_threshold not in policy_thresholds]
        return sorted([*self.policies, *budgets, *fixed], key=lambda choice: choice.spam_threshold)


def policies_of_rules(rules: RecipientRules) -> list[tuple[str, ThresholdPolicy]]:
    """Return the policies of rules that differ from that at the top of the file, with their names."""
    policies = [(f"for {rule.pattern.text}", rule.policy) for rule in rules.rules]
    return [(name, policy) for name, policy in policies if policy != rules.default.policy]


def compare_thresholds(
    prequential_scores: PrequentialScores,
    present: ThresholdPolicy,
    others: Sequence[tuple[str, ThresholdPolicy]] = (),
    learned_at: float = -math.inf,
) -> TuningResult:
    """Compare all choices on what was labelled after ``learned_at``, in seconds since the epoch.

    ``others`` are further policies with their names.
    """
    ham, sample = prequential_scores["ham"], LabelledSample.from_prequential_scores(prequential_scores, learned_at)
    present_rates = [policy.max_false_positive_rate for _, policy in (("", present), *others)]
    guarantees = budget_guarantees(ham, {*BUDGET_RATES, *filter(None, present_rates)})

    def choose(name: str, policy: ThresholdPolicy) -> ThresholdChoice:
        thresholds = policy.resolve_thresholds(guarantees)
        return ThresholdChoice(
            name=name,
            setting=_setting(policy),
            thresholds=thresholds,
            error_counts=count_errors(sample, thresholds),
            verdict_changes=compare_verdicts(sample, present.resolve_thresholds(guarantees), thresholds),
        )

    return TuningResult(
        sample=sample,
        is_biased=only_errors_are_labelled(ham),
        cost_ratio=cost_ratio(present),
        present=choose("present", present),
        others=[choose(*other) for other in others],
        budgets=[
            choose(f"budget {rate:g}", ThresholdPolicy(present.unsure, math.inf, None, rate))
            for rate in BUDGET_RATES
        ],
        fixed=[choose(f"fixed {p:g}", ThresholdPolicy(min(present.unsure, p), p)) for p in FIXED_THRESHOLDS],
    )


def cost_ratio(policy: ThresholdPolicy) -> float:
    """Return the cost of a lost ham, in missed spam, for which a fixed threshold P is right, P / (1 - P).

    For a budget it is 19.
    """
    if policy.max_false_positive_rate is not None or policy.spam >= 1:
        return _DEFAULT_COST_RATIO
    return round(policy.spam / (1 - policy.spam), 6)


def _setting(policy: ThresholdPolicy) -> str:
    if policy.max_false_positive_rate is not None:
        return f"max_false_positive_rate: {policy.max_false_positive_rate:g}"
    return f"spam: {policy.spam:g}"
