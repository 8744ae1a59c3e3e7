"""Metrics of the spool, exported only where ``listeners.dovecot`` is configured. Names are a contract."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from prometheus_client import Counter, Gauge, Histogram

if TYPE_CHECKING:
    from nbstream.listeners.dovecot.spool import SpoolBacklog
    from nbstream.metrics import MetricsRegistry

_OUTCOMES = ("spooled", "refused", "learned", "failed")
_SECONDS = (0.1, 1, 10, 60, 600, 3600, 86400)


class SpoolMetrics:
    """Counts what goes into the spool and out of it."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._messages = Counter(
            "nbstream_spool_messages",
            "Spooled messages, by outcome: spooled, refused (the spool is full or the disk fails), learned, "
            "failed (set aside). Only with listeners.dovecot.",
            ["outcome"],
            registry=registry.counts,
        )
        for outcome in _OUTCOMES:
            self._messages.labels(outcome)
        self._delay = Histogram(
            "nbstream_spool_delay_seconds",
            "Seconds between spooling a message and learning it. Only with listeners.dovecot.",
            registry=registry.counts,
            buckets=_SECONDS,
        )
        self._waiting = self._gauge(
            registry, "waiting", "Messages waiting in the spool. Only with listeners.dovecot."
        )
        self._oldest = self._gauge(
            registry,
            "oldest_seconds",
            "Seconds that the oldest spooled message has been waiting; 0 if there is none. Only with "
            "listeners.dovecot.",
        )
        self._failed = self._gauge(
            registry,
            "failed",
            "Messages set aside because they could not be learned. Only with listeners.dovecot.",
        )

    @staticmethod
    def _gauge(registry: MetricsRegistry, name: str, text: str) -> Gauge:
        # One worker measures; when it has ended, another one does.
        return Gauge(f"nbstream_spool_{name}", text, registry=registry.counts, multiprocess_mode="livemostrecent")

    def spooled(self) -> None:
        """Count a message that is in the spool."""
        self._messages.labels("spooled").inc()

    def spool_refused(self) -> None:
        """Count a message that was not taken."""
        self._messages.labels("refused").inc()

    def learned_from_spool(self, seconds: float) -> None:
        """Count a message that was learned so many seconds after it had come."""
        self._messages.labels("learned").inc()
        self._delay.observe(seconds)

    def set_aside(self) -> None:
        """Count a message that was set aside."""
        self._messages.labels("failed").inc()

    def backlog_measured(self, backlog: SpoolBacklog) -> None:
        """Note how much waits."""
        self._waiting.set(backlog.waiting)
        self._oldest.set(backlog.oldest_seconds(time.time()))
        self._failed.set(backlog.failed)
