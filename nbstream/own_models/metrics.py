"""Metrics of own models. Names are a contract; none has the name of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import Counter
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from nbstream.bayes.counts import CLASSES

if TYPE_CHECKING:
    from prometheus_client import Metric

    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.own_models.store import OwnModels


class OwnModelCollector:
    """The state of the own models in memory, read at each scrape."""

    def __init__(self, models: OwnModels) -> None:
        self._models = models

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges as they are now."""
        models = self._models
        yield GaugeMetricFamily(
            "nbstream_own_models", "Own models in the memory of a process.", value=models.cached
        )
        yield GaugeMetricFamily(
            "nbstream_own_models_bytes",
            "About how much memory the own models of a process take; see own_models.cache_megabytes.",
            value=models.bytes_used,
        )
        yield CounterMetricFamily(
            "nbstream_own_models_loads", "Own models that a process has loaded from Redis.", value=models.loads
        )


class AgreementMetrics:
    """Counts what users teach everybody."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._agreements = Counter(
            "nbstream_agreements",
            "Lessons of the common model that users agree on, by label and outcome: learned, unlearned (they "
            "agree no more), failed (left to the next lesson on that mailing; of no label where a user took "
            "his back). Only with own_models.shared_by.",
            ["label", "outcome"],
            registry=registry.counts,
        )
        for label in CLASSES:
            for outcome in ("learned", "unlearned", "failed"):
                self._agreements.labels(label, outcome)

    def count(self, label: str, outcome: str) -> None:
        """Count a lesson by what became of it."""
        self._agreements.labels(label, outcome).inc()
