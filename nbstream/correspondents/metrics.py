"""Metrics of what is known of correspondents. Names are a contract; none has an address or a user."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import Counter
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from prometheus_client import Metric

    from nbstream.correspondents.store import Correspondents
    from nbstream.metrics.registry import MetricsRegistry


class CorrespondentCollector:
    """How much a process knows, read at each scrape."""

    def __init__(self, correspondents: Correspondents) -> None:
        self._correspondents = correspondents

    def collect(self) -> Iterator[Metric]:
        """Yield the gauge as it is now."""
        facts = self._correspondents.known_now()
        known = GaugeMetricFamily(
            "nbstream_correspondents_known",
            "What a process knows: senders whom our users wrote to, and answers that mail of ours may get, two "
            "for most messages.",
            labels=["kind"],
        )
        known.add_metric(["sender"], len(facts.senders))
        known.add_metric(["answer"], len(facts.answers))
        yield known


class CorrespondentMetrics:
    """Counts the messages of our users."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._sent = Counter(
            "nbstream_correspondents_sent",
            "Messages of our users, by what became of what they say of correspondents: recorded, known (nothing "
            "in it was new), dropped.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in ("recorded", "known", "dropped"):
            self._sent.labels(outcome)

    def count(self, outcome: str, messages: int) -> None:
        """Count messages by what became of them."""
        self._sent.labels(outcome).inc(messages)
