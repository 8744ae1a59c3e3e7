"""Metrics of the store: its failovers, what it forgot, and what it could not remember. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.store.redis_errors import LOSS_REASONS

if TYPE_CHECKING:
    from nbstream.metrics import MetricsRegistry


class StoreMetrics:
    """Counts what the connections, the evictors and the memory report."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._failovers = Counter(
            "nbstream_redis_failovers",
            "How often all connections to Redis were dropped, by reason: other_server (a new connection reached "
            "another server, or the same one after a restart), or the error in a reply: readonly, moved, ask, "
            "tryagain, clusterdown, masterdown, loading, noauth, unblocked, noreplicas.",
            ["reason"],
            registry=registry.counts,
        )
        for reason in ("other_server", *LOSS_REASONS):
            self._failovers.labels(reason)
        self._evicted = Counter(
            "nbstream_tokens_evicted",
            "Tokens evicted to stay within model.max_tokens.",
            registry=registry.counts,
        )
        self._not_remembered = Counter(
            "nbstream_memory_dropped",
            "Checked messages that were not remembered because Redis was unavailable or too slow.",
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
