"""Metrics of the filter: checks, lessons, their outcomes, autolearning. Names are a contract."""

from __future__ import annotations

import logging
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

from nbstream.filter.parts import FilterObserver
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.filter import Check, CheckSeconds, Lesson
    from nbstream.metrics import MetricsRegistry
    from nbstream.policy.envelope import BuildEnvelope


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
            "Messages sent as feedback, by source, label and outcome: learned, relearned, insisted, already, "
            "unlearned, unknown, refused, failed.",
            ["source", "label", "outcome"],
            registry=registry.counts,
        )
        self._disagreement = Counter(
            "nbstream_feedback_disagreement",
            "Feedback whose label was not the verdict before it was learned.",
            ["verdict", "label"],
            registry=registry.counts,
        )
        self._check_seconds = Histogram(
            "nbstream_check_seconds",
            "Seconds of each stage of a check: wait (behind other checks, or for a thread), tokenize, score.",
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
            "Feedback that Redis refused to write: out of memory, or its disk is full.",
            registry=registry.counts,
        )
        self._autolearned = Counter(
            "nbstream_autolearn",
            "Messages that a check was sure of, and kept mail, by label and outcome: learned, kept (learned, of "
            "kept mail), already, known (nothing new), unbalanced, human (a person labelled it), unsure (the "
            "model that people taught is less sure, or the counts do not call kept mail ham), dropped, failed. "
            "Only with autolearn.",
            ["label", "outcome"],
            registry=registry.counts,
        )
        self._kinds = Counter(
            "nbstream_kinds",
            "Checked messages that are not spam, by their most probable kind; none while too little is learned. "
            "Only with kinds in model.classes.",
            ["kind"],
            registry=registry.counts,
        )
        self._own_model_checks = Counter(
            "nbstream_own_model_checks",
            "Checks in which an own model had a say (used), or was not loaded in time (unavailable). Only with "
            "models.",
            ["use"],
            registry=registry.counts,
        )
        self._discounted = Counter(
            "nbstream_checks_discounted",
            "Checked messages that would be spam, were they not unlike learned spam.",
            registry=registry.counts,
        )
        # A look-up of a child by its labels takes longer than the count itself: each child is looked up once.
        self._stage_seconds = cache(self._check_seconds.labels)

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

    def feedback_taken(self, lesson: Lesson, source: str) -> None:
        """Count the feedback of one message that was learned, or changed nothing."""
        self._feedback.labels(source, lesson.label or "none", str(lesson.outcome)).inc()
        if lesson.outcome not in {"learned", "relearned", "insisted"} or lesson.label is None:
            return
        if _disagrees(lesson.before.verdict, lesson.label):
            self._disagreement.labels(str(lesson.before.verdict), lesson.label).inc()

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Count the feedback of one message that could not be stored."""
        self._feedback.labels(source, label or "none", "failed").inc()

    def feedback_refused(self, label: str, source: str) -> None:
        """Count feedback from a peer that may not teach."""
        self._feedback.labels(source, label, "refused").inc()

    def store_refused(self) -> None:
        """Count one message whose feedback Redis refused to write."""
        self._store_refusals.inc()

    def autolearned(self, label: str, outcome: str) -> None:
        """Count one message that may be learned as ``label`` without people, by what became of that."""
        self._autolearned.labels(label, outcome).inc()


def _disagrees(verdict: Verdict, label: str) -> bool:
    return verdict is Verdict.UNSURE or verdict.is_spam != (label == "spam")
