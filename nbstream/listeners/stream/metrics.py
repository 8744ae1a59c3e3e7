"""Metrics of the stream listener, exported only where it is configured. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from nbstream.listeners.stream.queue import QueueBacklog
    from nbstream.metrics import MetricsRegistry

_OUTCOMES = ("answered", "refused", "repeated", "claimed", "dead", "lost")


class StreamMetrics:
    """Counts what the stream listener alone does, beside what all listeners count in ``DeliveryMetrics``."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._entries = Counter(
            "nbstream_stream_entries",
            "Stream entries, by outcome: answered, refused (with an error), repeated (already answered by "
            "another worker), claimed (taken over), dead (set aside), lost (removed by others). Only with "
            "listeners.stream.",
            ["outcome"],
            registry=registry.counts,
        )
        self._lag = Gauge(
            "nbstream_stream_lag",
            "Entries not yet given to a worker. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",
        )
        self._pending = Gauge(
            "nbstream_stream_pending",
            "Entries given to a worker and not yet answered. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",  # each process measures the same stream
        )
        for outcome in _OUTCOMES:
            self._entries.labels(outcome)

    def entry_finished(self, outcome: str) -> None:
        """Count what became of one entry."""
        self._entries.labels(outcome).inc()

    def backlog_measured(self, backlog: QueueBacklog) -> None:
        """Note how many entries are waiting."""
        self._lag.set(backlog.lag)
        self._pending.set(backlog.pending)
