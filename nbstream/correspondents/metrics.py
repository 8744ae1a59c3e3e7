"""Metrics of what is known of correspondents. Names are a contract; none has an address or a user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge

if TYPE_CHECKING:
    from nbstream.correspondents.store import Correspondents
    from nbstream.metrics import MetricsRegistry


class CorrespondentGauges:
    """How much a process knows; of several processes the one that knows most."""

    def __init__(self, registry: MetricsRegistry, correspondents: Correspondents) -> None:
        self._correspondents = correspondents
        self._known = Gauge(
            "nbstream_correspondents_known",
            "What a process knows: senders whom our users wrote to, and answers that mail of ours may get, two "
            "for most messages.",
            ["kind"],
            registry=registry.counts,
            multiprocess_mode="livemax",
        )
        registry.refresh_by(self._refresh)

    def _refresh(self) -> None:
        facts = self._correspondents.known_now()
        self._known.labels("sender").set(len(facts.senders))
        self._known.labels("answer").set(len(facts.answers))


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
