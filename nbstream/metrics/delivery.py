"""Metrics of listeners and deliveries: connections, verdicts, actions, relay, quarantine. Names are a contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

from nbstream.policy.actions import ActionKind

if TYPE_CHECKING:
    from nbstream.metrics.feedback import FeedbackMetrics
    from nbstream.metrics.registry import MetricsRegistry

_RELAY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)


class DeliveryMetrics:
    """Counts what becomes of messages, for all listeners.

    It is the ``MessageServiceObserver`` of the listeners for programs and the ``DeliveryObserver`` of the SMTP
    listener; ``QuarantineRetention`` reports here too. Feedback is counted in ``feedback``.
    """

    def __init__(self, registry: MetricsRegistry, feedback: FeedbackMetrics) -> None:
        self._registry = registry
        self._feedback = feedback
        self._messages = Counter(
            "nbstream_messages",
            "Messages checked and answered, by listener and verdict; the verdict is none where the check failed, "
            "and canary for a message of nbstream doctor.",
            ["listener", "verdict"],
            registry=registry.counts,
        )
        self._connections = Counter(
            "nbstream_connections",
            "Connections by listener and outcome: accepted, or refused (the listener is full, or closes). The "
            "metrics listener is left out.",
            ["listener", "outcome"],
            registry=registry.counts,
        )
        self._actions = Counter(
            "nbstream_actions",
            "Decisions about messages by action; a message to recipients with different actions counts for each "
            "of them.",
            ["action"],
            registry=registry.counts,
        )
        self._failures = Counter(
            "nbstream_filter_failures",
            "Checks that failed, by reason: store (no counts are loaded), error (a fault).",
            ["reason"],
            registry=registry.counts,
        )
        self._relay_seconds = Histogram(
            "nbstream_relay_seconds",
            "Seconds from the start of DATA to the last reply of the next hop.",
            buckets=_RELAY_BUCKETS,
            registry=registry.counts,
        )
        self._observed = Counter(
            "nbstream_observed_actions",
            "Actions that would have been taken; headers.mode is observe, and everything passes.",
            ["action"],
            registry=registry.counts,
        )
        self._relay_replies = Counter(
            "nbstream_relay_replies",
            "Replies of the next hop to messages, by code; none where it went away.",
            ["code"],
            registry=registry.counts,
        )
        self._quarantined = Gauge(
            "nbstream_quarantine_messages",
            "Messages in the quarantine, counted once a minute.",
            registry=registry.counts,
            multiprocess_mode="mostrecent",  # one process counts them, and its figure outlives it
        )
        self._expired = Counter(
            "nbstream_quarantine_expired",
            "Messages removed from the quarantine after quarantine.days.",
            registry=registry.counts,
        )
        for reason in ("store", "error"):
            self._failures.labels(reason)
        for action in ActionKind:
            self._actions.labels(str(action))
            self._observed.labels(str(action))
        # A look-up of a child by its labels takes longer than the count itself: each child is looked up once.
        self._connection_counter = cache(self._connections.labels)
        self._verdict_counter = cache(self._messages.labels)
        self._action_counter = cache(self._actions.labels)
        self._observed_counter = cache(self._observed.labels)
        self._reply_counter = cache(self._relay_replies.labels)

    def verdicts(self) -> Mapping[str, int]:
        """Return the numbers of messages checked since the start, by verdict, of all listeners and processes."""
        return self._registry.sums_by_label("nbstream_messages_total", "verdict")

    def connections(self) -> Mapping[tuple[str, str], int]:
        """Return the connections to this process since its start, by listener and outcome."""
        samples = (sample for family in self._connections.collect() for sample in family.samples)
        return {
            (sample.labels["listener"], sample.labels["outcome"]): int(sample.value)
            for sample in samples
            if sample.name == "nbstream_connections_total"
        }

    def listener_opened(self, listener: str) -> None:
        """Begin to count a listener's connections at 0: Prometheus sees an increase only between two scrapes."""
        for outcome in ("accepted", "refused"):
            self._connections.labels(listener, outcome)

    def connected(self, listener: str, accepted: bool) -> None:
        """Count a client that connected to a listener, and was accepted or turned away."""
        self._connection_counter(listener, "accepted" if accepted else "refused").inc()

    def delivered(self, listener: str, verdict: str) -> None:
        """Count one message that was checked and answered."""
        self._verdict_counter(listener, verdict).inc()

    def action_taken(self, action: str) -> None:
        """Count an action that was decided for some recipients of a message."""
        self._action_counter(action).inc()

    def action_observed(self, action: str) -> None:
        """Count an action that a trial did not take."""
        self._observed_counter(action).inc()

    def filter_failed(self, reason: str) -> None:
        """Count one check that failed."""
        self._failures.labels(reason).inc()

    def feedback_refused(self, label: str, source: str) -> None:
        """Count feedback from a peer that may not teach."""
        self._feedback.feedback_refused(label, source)

    def relayed(self, codes: Sequence[str], seconds: float) -> None:
        """Count the next hop's replies to a message, and the seconds that they took."""
        self._relay_seconds.observe(seconds)
        for code in codes:
            self._reply_counter(code).inc()

    def quarantine_swept(self, remaining: int, removed: int) -> None:
        """Note how many messages are in the quarantine now, and count those removed for their age."""
        self._quarantined.set(remaining)
        self._expired.inc(removed)
