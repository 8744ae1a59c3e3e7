"""The metrics of the stream door, exported only where it is open. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from nbstream.metrics.delivery import DeliveryMetrics
    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.store.stream_queue import QueueBacklog

_OUTCOMES = ("answered", "refused", "repeated", "claimed", "dead", "lost")


class StreamMetrics:
    """The door's observer: its own counts, beside what all doors count in ``delivery``."""

    def __init__(self, registry: MetricsRegistry, delivery: DeliveryMetrics) -> None:
        self._delivery = delivery
        self._entries = Counter(
            "nbstream_stream_entries",
            "Entries of the stream, by outcome: answered, refused (with an error), repeated (another worker had "
            "answered), claimed (taken over), dead (set aside), lost (removed by others). Only with "
            "listeners.stream.",
            ["outcome"],
            registry=registry.counts,
        )
        self._lag = Gauge(
            "nbstream_stream_lag",
            "Entries that no worker was given yet. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",
        )
        self._pending = Gauge(
            "nbstream_stream_pending",
            "Entries that a worker was given and that have no answer yet. Only with listeners.stream.",
            registry=registry.counts,
            multiprocess_mode="livemostrecent",  # each process looks at the same stream
        )
        for outcome in _OUTCOMES:
            self._entries.labels(outcome)

    def delivered(self, listener: str, verdict: str) -> None:
        """One entry was answered."""
        self._delivery.delivered(listener, verdict)

    def filter_failed(self, reason: str) -> None:
        """One try ended by a fault."""
        self._delivery.filter_failed(reason)

    def entry_finished(self, outcome: str) -> None:
        """That became of one entry."""
        self._entries.labels(outcome).inc()

    def backlog_measured(self, standing: QueueBacklog) -> None:
        """So much is waiting."""
        self._lag.set(standing.lag)
        self._pending.set(standing.pending)
