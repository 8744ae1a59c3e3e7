"""Metrics of the digests, exported only where ``digest`` is configured. Names are a contract."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

from nbstream.users.digests import DigestOutcome

if TYPE_CHECKING:
    from nbstream.metrics import MetricsRegistry


class DigestMetrics:
    """Counts digests by what became of them."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._digests = Counter(
            "nbstream_digests",
            "Digests of held mail, by outcome: sent, refused (by the next hop, for good), deferred (tried again). "
            "Only with digest.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in DigestOutcome:
            self._digests.labels(outcome)

    def count(self, outcome: DigestOutcome) -> None:
        """Count a digest."""
        self._digests.labels(outcome).inc()
