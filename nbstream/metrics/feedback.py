"""Metrics of feedback: its outcomes, disagreement with the verdict, and bursts. Names are a contract."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.logs import event_fields
from nbstream.policy.bursts import WINDOW_SECONDS, BurstDetector, BurstKind
from nbstream.policy.lesson_source import LessonSource
from nbstream.policy.verdict import Verdict

if TYPE_CHECKING:
    from nbstream.filter import Check, Lesson
    from nbstream.metrics.registry import MetricsRegistry

_log = logging.getLogger(__name__)


class FeedbackMetrics:
    """Counts feedback, for the filter and for the listeners that refuse it (``FeedbackObserver``)."""

    def __init__(self, registry: MetricsRegistry) -> None:
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
        self._bursts = Counter(
            "nbstream_feedback_bursts",
            "Bursts of feedback from one actor, by kind: contradicting, one_sided.",
            ["kind"],
            registry=registry.counts,
        )
        for kind in BurstKind:
            self._bursts.labels(str(kind))
        self._burst_detector = BurstDetector()

    def feedback_taken(self, lesson: Lesson, source: str, actor: str) -> None:
        """Count the feedback of one message that was learned, or changed nothing."""
        self._feedback.labels(source, lesson.label or "none", str(lesson.outcome)).inc()
        if lesson.outcome not in {"learned", "relearned", "insisted"} or lesson.label is None:
            return
        if _disagrees(lesson.before.verdict, lesson.label):
            self._disagreement.labels(str(lesson.before.verdict), lesson.label).inc()
        if not lesson.before.state.is_learning:
            self._log_bursts(lesson.before, lesson.label, source, actor)

    def feedback_failed(self, label: str | None, source: str) -> None:
        """Count the feedback of one message that could not be stored."""
        self._feedback.labels(source, label or "none", "failed").inc()

    def feedback_refused(self, label: str, source: str) -> None:
        """Count feedback from a peer that may not teach."""
        self._feedback.labels(source, label, "refused").inc()

    def _log_bursts(self, before: Check, label: str, source: str, actor: str) -> None:
        """Count and log each burst once, with the lesson that makes it one."""
        begun = self._burst_detector.add_lesson(
            time.monotonic(), LessonSource(source, actor), label, before.verdict, before.probability
        )
        for kind in begun:
            self._bursts.labels(str(kind)).inc()
            _log.warning(
                "feedback burst: look at nbstream history --since %dm",
                round(WINDOW_SECONDS / 60),
                extra=event_fields(kind=str(kind), source=source, actor=actor, label=label),
            )


def _disagrees(verdict: Verdict, label: str) -> bool:
    return verdict is Verdict.UNSURE or verdict.is_spam != (label == "spam")
