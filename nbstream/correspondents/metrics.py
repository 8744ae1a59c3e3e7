"""Metrics of what is known of correspondents. Names are a contract; none has an address or a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from nbstream.correspondents.store import Correspondents
    from nbstream.metrics import MetricsRegistry


class CorrespondentMetrics:
    """Counts the messages of our users, and says how much a process knows."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._sent = Counter(
            "nbstream_correspondents_sent",
            "Outgoing messages, by what became of their correspondents: recorded, known (nothing was new), "
            "dropped.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in ("recorded", "known", "dropped"):
            self._sent.labels(outcome)

    def count(self, outcome: str, messages: int) -> None:
        """Count messages by what became of them."""
        self._sent.labels(outcome).inc(messages)

    def show(self, correspondents: Correspondents) -> None:
        """Show how much is known; of several processes the one that knows most."""
        known = Gauge(
            "nbstream_correspondents_known",
            "What a process knows: senders to whom local users have written, and possible answers to outgoing "
            "mail, two for most messages.",
            ["kind"],
            registry=self._registry.counts,
            multiprocess_mode="livemax",
        )

        def refresh() -> None:
            facts = correspondents.known_now()
            known.labels("sender").set(len(facts.senders))
            known.labels("answer").set(len(facts.answers))

        self._registry.refresh_by(refresh)
