"""Metrics of own models. Names are a contract; none has the name of a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from nbstream.filter.own_models.store import OwnModels
    from nbstream.metrics import MetricsRegistry


class OwnModelMetrics:
    """The state of the own models in memory; of several processes that of the largest."""

    def __init__(self, registry: MetricsRegistry, models: OwnModels) -> None:
        self._models = models
        self._cached = Gauge(
            "nbstream_own_models",
            "Own models in a process's memory.",
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        self._bytes = Gauge(
            "nbstream_own_models_bytes",
            "Approximate memory of a process's own models, at most 256 MiB.",
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        self._loads = Counter(
            "nbstream_own_models_loads",
            "Own models loaded from Redis by a process.",
            registry=registry.counts,
        )
        self._counted_loads = 0
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        models = self._models
        self._cached.set(models.cached)
        self._bytes.set(models.bytes_used)
        self._loads.inc(models.loads - self._counted_loads)
        self._counted_loads = models.loads
