"""What listeners report: metrics of connections, verdicts, actions, relay and quarantine, and lines of the log.

The names of metrics and of the fields of lines are a contract.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from prometheus_client import Counter, Gauge, Histogram

from nbstream.logs import event_fields
from nbstream.policy.sender_lists import LIST_DECISIONS, LIST_OWNERS
from nbstream.policy.verdict import ActionKind

if TYPE_CHECKING:
    from nbstream.delivery.quarantine import QuarantineUsage
    from nbstream.filter import Check, FeedbackResult
    from nbstream.filter.metrics import FilterMetrics
    from nbstream.metrics import MetricsRegistry
    from nbstream.policy.sender_lists import ListDecision
    from nbstream.policy.verdict import Action

_log = logging.getLogger(__name__)

MetricT = TypeVar("MetricT", Counter, Gauge)

_RELAY_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 100.0)


def _children(kind: Callable[..., MetricT], *arguments: Any, **options: Any) -> Callable[..., MetricT]:
    """Return what finds the children of a new metric by their labels.

    A look-up by prometheus_client takes longer than the count itself: each child is looked up once.
    """
    return cache(kind(*arguments, **options).labels)


class DeliveryMetrics:
    """Counts what becomes of messages, for all listeners; ``filter_metrics`` counts all feedback."""

    def __init__(self, registry: MetricsRegistry, filter_metrics: FilterMetrics) -> None:
        self._registry = registry
        self.filter_metrics = filter_metrics
        self._messages = _children(
            Counter,
            "nbstream_messages",
            "Messages checked and answered, by listener and verdict; the verdict is none if the check failed, "
            "and canary for a message from nbstream doctor.",
            ["listener", "verdict"],
            registry=registry.counts,
        )
        self._connections = _children(
            Counter,
            "nbstream_connections",
            "Connections by listener and outcome: accepted, or refused (the listener is full or shutting down). "
            "The metrics listener is not counted.",
            ["listener", "outcome"],
            registry=registry.counts,
        )
        self._open_connections = _children(
            Gauge,
            "nbstream_connections_open",
            "Open connections, by listener. The metrics listener is not counted.",
            ["listener"],
            registry=registry.counts,
            multiprocess_mode="livesum",
        )
        self._actions = _children(
            Counter,
            "nbstream_actions",
            "Decisions by action; a message to recipients with different actions counts once for each action.",
            ["action"],
            registry=registry.counts,
        )
        self._failures = Counter(
            "nbstream_filter_failures",
            "Failed checks, by reason: store (no counts are loaded), error (an internal error).",
            ["reason"],
            registry=registry.counts,
        )
        self._relay_seconds = Histogram(
            "nbstream_relay_seconds",
            "Seconds from the start of DATA to the last reply of the next hop.",
            buckets=_RELAY_BUCKETS,
            registry=registry.counts,
        )
        self._observed = _children(
            Counter,
            "nbstream_observed_actions",
            "Actions that would have been taken if headers.mode were not observe.",
            ["action"],
            registry=registry.counts,
        )
        self._list_decisions = Counter(
            "nbstream_list_decisions",
            "Messages whose sender is on a sender list, by kind: allow, block, allow-unproved (the sender was "
            "not authenticated, so the entry had no effect); and by owner: site, user. A message counts once for "
            "each combination.",
            ["kind", "owner"],
            registry=registry.counts,
        )
        self._relay_replies = _children(
            Counter,
            "nbstream_relay_replies",
            "The next hop's replies to messages, by code; none if it disconnected.",
            ["code"],
            registry=registry.counts,
        )
        self._quarantined = Gauge(
            "nbstream_quarantine_messages",
            "Messages in the quarantine, updated once a minute.",
            registry=registry.counts,
            multiprocess_mode="mostrecent",  # one process counts them, and its figure outlives it
        )
        self._expired = Counter(
            "nbstream_quarantine_expired",
            "Messages that expired from the quarantine (quarantine.days).",
            registry=registry.counts,
        )
        self._quarantine_bytes = Gauge(
            "nbstream_quarantine_bytes",
            "Bytes in the quarantine, updated once a minute: all messages (all), and those of the user with most "
            "(largest_user). See quarantine.max_bytes.",
            ["of"],
            registry=registry.counts,
            multiprocess_mode="mostrecent",
        )
        self._quarantine_full = Counter(
            "nbstream_quarantine_full",
            "Messages deferred because the quarantine was full, in total or for a user.",
            registry=registry.counts,
        )
        for reason in ("store", "error"):
            self._failures.labels(reason)
        for action in ActionKind:
            self._actions(str(action))
            self._observed(str(action))
        for name, owner in product(LIST_DECISIONS, LIST_OWNERS):
            self._list_decisions.labels(name, str(owner))

    def verdicts(self) -> Mapping[str, int]:
        """Return the numbers of messages checked since the start, by verdict, of all listeners and processes."""
        return self._registry.sums_by_label("nbstream_messages_total", "verdict")

    def listener_opened(self, listener: str) -> None:
        """Begin to count a listener's connections at 0: Prometheus sees an increase only between two scrapes."""
        self._open_connections(listener)
        for outcome in ("accepted", "refused"):
            self._connections(listener, outcome)

    def connected(self, listener: str, accepted: bool) -> None:
        """Count a client that connected to a listener, and was accepted or turned away."""
        self._connections(listener, "accepted" if accepted else "refused").inc()
        if accepted:
            self._open_connections(listener).inc()

    def disconnected(self, listener: str) -> None:
        """Note that a connection to a listener that was accepted is closed."""
        self._open_connections(listener).dec()

    def delivered(self, listener: str, verdict: str) -> None:
        """Count one message that was checked and answered."""
        self._messages(listener, verdict).inc()

    def answered(
        self,
        listener: str,
        check: Check | None,
        seconds: float,
        *,
        entry: str | None = None,
        **details: str | None,
    ) -> None:
        """Count a message that was answered after ``seconds``, and write its line of the log.

        ``check`` is None where there is no verdict, ``entry`` the stream id of a message out of a stream;
        ``details`` are the further fields of the listener's line, of which one that is None is shown as missing.
        """
        verdict = check.outcome if check else "none"
        self.delivered(listener, verdict)
        listed = check.listed if check else None
        fields = {
            "listener": listener,
            **({"entry": entry} if entry is not None else {}),
            "id": check.id if check else None,
            "verdict": verdict,
            "probability": round(check.probability, 6) if check else None,
            **({"kind": check.kind.kind} if check and check.kind else {}),
            **({"list": listed.name, "list_owner": str(listed.owner)} if listed else {}),
            **({"own": str(check.own)} if check and check.own else {}),
            **details,
            "milliseconds": round(seconds * 1000, 2),
        }
        _log.info("message", extra=event_fields(**fields))

    def action_decided(self, action: Action, observed: Action | None) -> None:
        """Count the action for some recipients of a message, and the one that a trial did not take."""
        self._actions(str(action.kind)).inc()
        if observed:
            self._observed(str(observed.kind)).inc()

    def list_decided(self, decision: ListDecision) -> None:
        """Count what a sender list said of a message, for some of its recipients."""
        self._list_decisions.labels(decision.name, str(decision.owner)).inc()

    def filter_failed(self, reason: str) -> None:
        """Count one check that failed."""
        self._failures.labels(reason).inc()

    def relayed(self, codes: Sequence[str], seconds: float) -> None:
        """Count the next hop's replies to a message, and the seconds that they took."""
        self._relay_seconds.observe(seconds)
        for code in codes:
            self._relay_replies(code).inc()

    def quarantine_swept(self, remaining: int, removed: int, usage: QuarantineUsage) -> None:
        """Note the messages in the quarantine now and their room, and count those removed for their age."""
        self._quarantined.set(remaining)
        self._quarantine_bytes.labels("all").set(usage.total)
        self._quarantine_bytes.labels("largest_user").set(usage.largest_user)
        self._expired.inc(removed)

    def quarantine_full(self) -> None:
        """Count a message for which the quarantine had no room."""
        self._quarantine_full.inc()


def log_lesson(lesson: FeedbackResult, source: str, actor: str) -> None:
    """Log one lesson of ``actor``, which came through the listener or command ``source``."""
    _log.info(
        "feedback",
        extra=event_fields(
            source=source,
            actor=actor,
            id=lesson.after.id,
            label=lesson.class_name,
            outcome=str(lesson.outcome),
            before=round(lesson.before.probability, 6),
            after=round(lesson.after.probability, 6),
        ),
    )
