"""Metrics of the filter: its checks, its lessons, and what it learned without people. Names are a contract."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import Counter, Histogram

if TYPE_CHECKING:
    from nbstream.filter import Check, CheckSeconds, Lesson
    from nbstream.metrics.feedback import FeedbackMetrics
    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.tokens.tokenizer import Tokens

_STAGE_BUCKETS = (0.00005, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.5, 1.0)
_PROBABILITY_BUCKETS = (0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 0.999, 1.0)


class FilterMetrics:
    """Counts what the filter (``FilterObserver``) and the autolearner do; feedback is counted in ``feedback``."""

    def __init__(self, registry: MetricsRegistry, feedback: FeedbackMetrics) -> None:
        self._feedback = feedback
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
            "Messages that a check was sure of, by label and outcome: learned, already, unbalanced, human (a "
            "person labelled it), unsure (the model that people taught is less sure), dropped, failed. Only with "
            "autolearn.",
            ["label", "outcome"],
            registry=registry.counts,
        )
        # A look-up of a child by its labels takes longer than the count itself: each child is looked up once.
        self._stage_seconds = cache(self._check_seconds.labels)

    def checked(
        self, check: Check, tokens: Tokens, seconds: CheckSeconds, build_envelope: BuildEnvelope | None
    ) -> None:
        """Count one checked message, and how long each stage of its check took."""
        for stage, duration in seconds.by_stage().items():
            self._stage_seconds(stage).observe(duration)
        self._probability.observe(check.probability)

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Count the feedback of one message that was learned, or changed nothing."""
        self._feedback.feedback_taken(lesson, source, actor)

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Count the feedback of one message that could not be stored."""
        self._feedback.feedback_failed(label, source)

    def store_refused(self) -> None:
        """Count one message whose feedback Redis refused to write."""
        self._store_refusals.inc()

    def autolearned(self, label: str, outcome: str) -> None:
        """Count one message that a check was sure is ``label``, by what the autolearner did with it."""
        self._autolearned.labels(label, outcome).inc()
