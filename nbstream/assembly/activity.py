"""The activity of one process from settings: what it counts, and what it says of itself."""

from __future__ import annotations

import socket
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream import __version__
from nbstream.store.activity import ActivityCounter, ActivityWriter, ListenerConnections, ProcessStatus

if TYPE_CHECKING:
    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.metrics.daemon import DaemonMetrics
    from nbstream.metrics.delivery import DeliveryMetrics
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.model import Model


class ProcessReport:
    """What a process says of itself; ``worker`` is its number, None where it is the only one of its daemon."""

    def __init__(self, worker: int | None, mirror: Mirror, delivery: DeliveryMetrics) -> None:
        self._host = socket.gethostname()
        self._worker = worker or 0
        self._mirror = mirror
        self._delivery = delivery
        self._quarantined: int | None = None

    def name(self, settings: Settings) -> str:
        """Return the name of the process, which another one has only once this one has ended.

        Daemons with different state folders on one host may share a model.
        """
        folder = zlib.crc32(str(settings.state_dir).encode("utf-8", "surrogateescape"))
        return f"{self._host}/{folder:08x}/{self._worker}"

    def quarantine_swept(self, remaining: int) -> None:
        """Note how many messages are in the quarantine now."""
        self._quarantined = remaining

    def status(self) -> ProcessStatus:
        """Return how the process is now."""
        mirror = self._mirror
        return ProcessStatus(
            self._host,
            self._worker,
            __version__,
            mirror.totals is not None,
            round(mirror.lag_seconds, 1),
            self._quarantined,
            {
                listener: ListenerConnections(counts.open, counts.accepted, counts.refused)
                for listener, counts in sorted(self._delivery.connections().items())
            },
        )


@dataclass(frozen=True, slots=True)
class ActivityParts:
    """What counts in this process, what writes that to Redis, and what the process says of itself."""

    counter: ActivityCounter
    writer: ActivityWriter
    report: ProcessReport


def make_activity(
    settings: Settings,
    clients: RedisClients,
    model: Model,
    mirror: Mirror,
    metrics: DaemonMetrics,
    worker: int | None,
) -> ActivityParts | None:
    """Return the parts; None where no page shows it, neither here nor on another host."""
    if not settings.remembers_rows:
        return None
    counter, report = ActivityCounter(), ProcessReport(worker, mirror, metrics.delivery)
    metrics.delivery.report_unchecked_to(counter.count_unchecked)
    # The client that does not retry by itself: nothing may be counted twice.
    writer = ActivityWriter(
        clients.blocking_client,
        model.keys,
        counter,
        report.name(settings),
        report.status,
        metrics.store.activity_dropped,
    )
    writer.report_writes_to(model.note_writes_accepted)
    return ActivityParts(counter, writer, report)
