"""Metrics of the filter: checks, lessons, their outcomes, autolearning. Names are a contract."""

from __future__ import annotations

import logging
from bisect import bisect_left
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from nbstream.bayes.columns import CLASSES
from nbstream.filter.parts import FilterObserver
from nbstream.metrics import StateGauge
from nbstream.policy.thresholds import budget_guarantees
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from nbstream.filter import Check, CheckSeconds, FeedbackResult, FilterPolicy
    from nbstream.metrics import MetricsRegistry
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.thresholds import PrequentialScores
    from nbstream.store.connection import Primary
    from nbstream.store.follower.counts import FollowedCounts


_STAGE_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
_PROBABILITY_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


_log = logging.getLogger(__name__)


class FilterMetrics(FilterObserver):
    """Counts what the filter and the autolearner do, and feedback that listeners refuse."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._waiting: list[tuple[CheckSeconds, float]] = []
        self._counts_at_once = registry.counts_at_once
        registry.refresh_by(self._count_waiting)
        self._feedback = Counter(
            "nbstream_feedback",
            "Feedback messages, by source, label and outcome: learned, relearned, reinforced, already, "
            "unlearned, unknown, refused, failed.",
            ["source", "label", "outcome"],
            registry=registry.counts,
        )
        self._disagreement = Counter(
            "nbstream_feedback_disagreement",
            "Feedback whose label differed from the verdict.",
            ["verdict", "label"],
            registry=registry.counts,
        )
        self._check_seconds = Histogram(
            "nbstream_check_seconds",
            "Seconds spent in each stage of a check: wait (for other checks or a thread), tokenize, score.",
            ["stage"],
            buckets=_STAGE_BUCKETS,
            registry=registry.counts,
        )
        self._probability = Histogram(
            "nbstream_score_probability",
            "P(spam) of checked messages.",
            buckets=_PROBABILITY_BUCKETS,
            registry=registry.counts,
        )
        self._store_refusals = Counter(
            "nbstream_redis_refused",
            "Feedback that Redis refused to store: out of memory, or its disk is full.",
            registry=registry.counts,
        )
        self._autolearned = Counter(
            "nbstream_autolearn",
            "Messages that a check was sure of, and implicit ham, by label and outcome: learned, kept (learned as "
            "implicit ham), already, known (nothing new), unbalanced, human (a person labelled it), unsure (the "
            "model taught by people is less sure, or implicit ham scores as spam), dropped, failed. "
            "Only with autolearn.",
            ["label", "outcome"],
            registry=registry.counts,
        )
        self._kinds = Counter(
            "nbstream_kinds",
            "Checked messages other than spam, by their most probable kind; none until enough has been learned. "
            "Only with kinds in model.classes.",
            ["kind"],
            registry=registry.counts,
        )
        self._own_model_checks = Counter(
            "nbstream_own_model_checks",
            "Checks that used an own model (used), or for which it was not loaded in time (unavailable). Only "
            "with own_models.",
            ["use"],
            registry=registry.counts,
        )
        self._discounted = Counter(
            "nbstream_checks_discounted",
            "Checked messages that were not called spam because they are unlike learned spam.",
            registry=registry.counts,
        )
        # A look-up of a child by its labels takes longer than the count itself: each child is looked up once.
        self._stage_seconds = cache(self._check_seconds.labels)
        self._automatic_counter = cache(self._autolearned.labels)

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        """Count one checked message, and how long each stage of its check took."""
        self._waiting.append((seconds, check.probability))
        if len(self._waiting) >= self._counts_at_once:
            self._count_waiting()
        if check.is_discounted:
            self._discounted.inc()
        if check.kind:
            self._kinds.labels(check.kind.kind or "none").inc()
        if check.own:
            self._own_model_checks.labels(str(check.own)).inc()

    def _count_waiting(self) -> None:
        for seconds, probability in self._waiting:
            for stage, duration in seconds.by_stage().items():
                self._stage_seconds(stage).observe(duration)
            self._probability.observe(probability)
        self._waiting.clear()

    def feedback_taken(self, lesson: FeedbackResult, source: str) -> None:
        """Count the feedback of one message that was learned, or changed nothing."""
        self._feedback.labels(source, lesson.label or "none", str(lesson.outcome)).inc()
        if lesson.outcome not in {"learned", "relearned", "reinforced"} or lesson.label is None:
            return
        if _disagrees(lesson.before.verdict, lesson.label):
            self._disagreement.labels(str(lesson.before.verdict), lesson.label).inc()

    def feedback_failed(self, label: str | None, source: str, *, is_refused: bool = False) -> None:
        """Count the feedback of one message that could not be stored, and whether Redis refused to write it."""
        self._feedback.labels(source, label or "none", "failed").inc()
        self._store_refusals.inc(is_refused)

    def feedback_refused(self, label: str, source: str) -> None:
        """Count feedback from a peer that may not teach."""
        self._feedback.labels(source, label, "refused").inc()

    def autolearned(self, label: str, outcome: str) -> None:
        """Count one message that may be learned as ``label`` without people, by what became of that."""
        self._automatic_counter(label, outcome).inc()


def _disagrees(verdict: Verdict, label: str) -> bool:
    return verdict is Verdict.UNSURE or verdict.is_spam != (label == "spam")


# Gauges of model, follower, thresholds, calibration and budgets. Names are a contract.


class ModelGauges:
    """Gauges of the model, the follower and the thresholds."""

    def __init__(
        self,
        registry: MetricsRegistry,
        counts: FollowedCounts,
        primary: Primary,
        policy: Callable[[], FilterPolicy],
    ) -> None:
        self._counts = counts
        self._primary = primary
        self._filter_policy = policy
        self._messages = StateGauge(
            registry, "nbstream_model_messages", "Messages learned and not unlearned, by class.", ["class"]
        )
        self._tokens = StateGauge(registry, "nbstream_model_tokens", "Distinct tokens in the vocabulary.")
        self._messages_needed = StateGauge(
            registry,
            "nbstream_model_messages_needed",
            "Messages that must be learned before the model decides, by class.",
            ["class"],
        )
        self._lag = Gauge(
            "nbstream_follower_lag_seconds",
            "Seconds since the counts in memory were last known to match Redis.",
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        self._redis_up = Gauge(
            "nbstream_redis_up",
            "1 while the change stream is followed and the server is a primary.",
            registry=registry.counts,
            multiprocess_mode="livemin",
        )
        self._threshold = StateGauge(
            registry,
            "nbstream_threshold",
            "P(spam) from which a verdict applies, by threshold: unsure, spam, reject; infinite for never.",
            ["name"],
        )
        self._budget_guaranteed = StateGauge(
            registry,
            "nbstream_budget_guaranteed",
            "1 while this false-positive rate is guaranteed, otherwise 0.",
            ["rate"],
        )
        self._budget_needed = StateGauge(
            registry,
            "nbstream_budget_ham_needed",
            "Ham messages that must still be labelled before this false-positive rate can be guaranteed.",
            ["rate"],
        )
        self._prequential_scores = PrequentialScoreGauges(registry)
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        policy, prequential_scores, totals = (
            self._filter_policy(),
            self._counts.loaded_prequential_scores,
            self._counts.totals,
        )
        self._messages_needed.set({(label,): policy.min_learned.get(label, 0) for label in CLASSES})
        if totals is not None:
            self._messages.set({(label,): totals.messages[column] for column, label in enumerate(CLASSES)})
            self._tokens.set({(): totals.vocabulary_size})
            self._prequential_scores.set(prequential_scores)
        self._lag.set(self._counts.lag_seconds)
        self._redis_up.set(self._counts.is_current and not self._primary.is_replica)
        thresholds = policy.default_policy.thresholds(prequential_scores)
        named = {"unsure": thresholds.unsure, "spam": thresholds.spam, "reject": thresholds.reject}
        self._threshold.set({(name,): value for name, value in named.items() if value is not None})
        guarantees = budget_guarantees(prequential_scores["ham"], policy.budget_rates)
        self._budget_guaranteed.set(
            {(str(rate),): each.threshold is not None for rate, each in guarantees.items()}
        )
        self._budget_needed.set({(str(rate),): each.ham_missing for rate, each in guarantees.items()})


class AutolearnGauges:
    """Gauges of what was learned without people; without values before the follower has loaded it."""

    def __init__(self, registry: MetricsRegistry, counts: FollowedCounts) -> None:
        self._counts = counts
        self._messages = StateGauge(
            registry,
            "nbstream_autolearn_messages",
            "Messages learned automatically, by class. Only with autolearn.",
            ["class"],
        )
        self._tokens = StateGauge(
            registry,
            "nbstream_autolearn_tokens",
            "Distinct tokens of the messages learned automatically. Only with autolearn.",
        )
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        totals = self._counts.automatic_totals
        if totals is None:
            return
        self._messages.set({(label,): totals.messages[column] for column, label in enumerate(CLASSES)})
        self._tokens.set({(): totals.vocabulary_size})


_BIN_EDGES = (0.0, 0.001, 0.01, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class PrequentialScoreGauges:
    """Gauges of the stored prequential scores, the same in every process; none before they are loaded.

    A bin is named after its ends: ``0.9-0.95`` is 0.9 <= P(spam) < 0.95, and the last bin includes 1. In a
    calibrated model the number of spam messages in a bin is the sum of the probabilities of its messages.
    """

    def __init__(self, registry: MetricsRegistry) -> None:
        self._messages = StateGauge(
            registry,
            "nbstream_calibration_messages",
            "Labelled messages, by class and by their prequential P(spam); bin 0.9-0.95 is 0.9 <= P < 0.95.",
            ["class", "bin"],
        )
        self._expected_spam = StateGauge(
            registry,
            "nbstream_calibration_expected_spam",
            "Expected number of spam among the labelled messages of a bin: the sum of their P(spam).",
            ["bin"],
        )

    def set(self, prequential_scores: PrequentialScores) -> None:
        """Set them to what these prequential scores say."""
        messages: dict[tuple[str, ...], float] = {}
        expected: dict[tuple[str, ...], float] = {}
        for low, high in pairwise(_BIN_EDGES):
            name, total = f"{low:g}-{high:g}", 0.0
            for label in CLASSES:
                ascending = prequential_scores[label].ascending_probabilities
                end = len(ascending) if high == _BIN_EDGES[-1] else bisect_left(ascending, high)
                in_bin = ascending[bisect_left(ascending, low) : end]
                messages[label, name] = len(in_bin)
                total += sum(in_bin)
            expected[name,] = total
        self._messages.set(messages)
        self._expected_spam.set(expected)
