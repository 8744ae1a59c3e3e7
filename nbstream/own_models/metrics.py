"""Metrics of own models. Names are a contract; none has the name of a model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

if TYPE_CHECKING:
    from prometheus_client import Metric

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
