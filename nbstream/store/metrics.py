"""Metrics of the store: its failovers, what it forgot, and what it could not remember. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.store.recovery.missing_lessons import LessonFate
from nbstream.store.redis_errors import LOSS_REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.metrics.registry import MetricsRegistry

_NOT_RESTORED = (LessonFate.SUPERSEDED, LessonFate.UNKNOWN)


class StoreMetrics:
    """Counts what the connections, the evictors, the memory, the journal and the restorer of lessons report."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._failovers = Counter(
            "nbstream_redis_failovers",
            "Times that all connections to Redis were dropped, by reason: other_server (a new connection reached "
            "another server, or the same one after a restart), or what a reply said: readonly, moved, ask, "
            "tryagain, clusterdown, masterdown, loading, noauth, unblocked, noreplicas.",
            ["reason"],
            registry=registry.counts,
        )
        for reason in ("other_server", *LOSS_REASONS):
            self._failovers.labels(reason)
        self._evicted = Counter(
            "nbstream_tokens_evicted",
            "Tokens forgotten to stay within model.max_tokens.",
            registry=registry.counts,
        )
        self._not_remembered = Counter(
            "nbstream_memory_dropped",
            "Checked messages that are not remembered: Redis was away or too slow.",
            registry=registry.counts,
        )
        self._changes_missing = Counter(
            "nbstream_changes_missing",
            "Changes that this daemon had followed and that Redis had lost: lessons of all hosts, and evictions.",
            registry=registry.counts,
        )
        self._lessons_missing = Counter(
            "nbstream_lessons_missing",
            "Lessons that Redis had acknowledged to this host and lost.",
            registry=registry.counts,
        )
        self._lessons_restored = Counter(
            "nbstream_lessons_restored",
            "Missing lessons that were taught again.",
            registry=registry.counts,
        )
        self._lessons_not_restored = Counter(
            "nbstream_lessons_not_restored",
            "Missing lessons that were not taught again, by reason: superseded (the message was taught otherwise "
            "since), unknown (the record or the history does not go back far enough).",
            ["reason"],
            registry=registry.counts,
        )
        for fate in _NOT_RESTORED:
            self._lessons_not_restored.labels(str(fate))
        self._lessons_unrecorded = Counter(
            "nbstream_lessons_unrecorded",
            "Acknowledged lessons that could not be recorded in state_dir, so they cannot be taught again.",
            registry=registry.counts,
        )

    def primary_lost(self, reason: str) -> None:
        """Count that all connections to Redis were dropped for this reason."""
        self._failovers.labels(reason).inc()

    def evicted(self, tokens: int) -> None:
        """Count tokens that were forgotten to stay within the limit of the vocabulary."""
        self._evicted.inc(tokens)

    def not_remembered(self, messages: int) -> None:
        """Count checked messages that were dropped instead of remembered."""
        self._not_remembered.inc(messages)

    def lessons_unrecorded(self, lessons: int) -> None:
        """Count acknowledged lessons that could not be recorded."""
        self._lessons_unrecorded.inc(lessons)

    def lessons_lost(self, changes: int, lessons: Mapping[LessonFate, int]) -> None:
        """Count changes, and recorded lessons by what became of them, that Redis has lost.

        The ``MISSING`` ones were taught again.
        """
        self._changes_missing.inc(changes)
        self._lessons_missing.inc(sum(lessons.values()))
        self._lessons_restored.inc(lessons.get(LessonFate.MISSING, 0))
        for fate in _NOT_RESTORED:
            self._lessons_not_restored.labels(str(fate)).inc(lessons.get(fate, 0))
