"""Metrics of the pages behind links, exported only where ``digest`` and ``listeners.http`` are configured."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter

if TYPE_CHECKING:
    from nbstream.metrics.registry import MetricsRegistry
    from nbstream.users.links import LinkPurpose


class LinkMetrics:
    """Counts what is asked of the pages behind links."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._requests = Counter(
            "nbstream_digest_links",
            "Requests of the pages behind the links of a digest, by purpose (release, ham, digest) and outcome: "
            "shown, done, gone, in_doubt, refused, later, invalid. Only with digest and listeners.http.",
            ["purpose", "outcome"],
            registry=registry.counts,
        )

    def count(self, purpose: LinkPurpose, outcome: str) -> None:
        """Count a request."""
        self._requests.labels(purpose, outcome).inc()
