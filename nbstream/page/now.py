"""What the view now shows, of this process and of all others, and what is wrong with them."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from nbstream.errors import StoreForbids, StoreUnavailable
from nbstream.findings import note, problem, warning
from nbstream.store.activity import (
    SILENT_SECONDS,
    Activity,
    ActivityReader,
    ActivitySpan,
    ListenerConnections,
    SeenProcess,
    watch_activity,
)
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from nbstream.assembly.store import RedisClients
    from nbstream.config import Settings
    from nbstream.findings import Finding
    from nbstream.store.activity import ActivityWatch
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.keys import ModelKeys

_log = logging.getLogger(__name__)

_HEALTH_SECONDS = 10.0
_HEALTH_WAIT_SECONDS = 0.1


PROCESS_SILENT = problem(
    "daemon.processes",
    "The process of {process} has said nothing for {seconds:.0f} s, or the clock of its host is behind.",
    "See whether it runs, in its log why it does not reach Redis, and whether that clock is right.",
)
CLOCK_AHEAD = warning(
    "daemon.processes",
    "The clock of {host} is {seconds:.0f} s ahead of the clock of this host: its messages are shown that much "
    "later.",
    "Let both hosts set their clocks by NTP.",
)
VERSIONS_DIFFER = note(
    "daemon.processes",
    "The processes run different versions: {versions}.",
    "Finish the upgrade, and restart the daemons that still run the older one.",
)
NOT_COUNTED = warning(
    "daemon.activity",
    "The numbers of verdicts of the last {span} lack up to {count} messages, because Redis could not be written "
    "when they were checked.",
    "Nothing, where Redis is there again; the metrics (/metrics) have numbers that do not need it.",
)
NO_NEWS = warning(
    "daemon.events",
    "The page is not told of news, because Redis does not allow its user to publish or to subscribe.",
    "Give that user of Redis +publish +subscribe +unsubscribe and &nbstream:*; reload the page until then.",
)


@dataclass(frozen=True, slots=True)
class Now:
    """What the view shows.

    ``activity`` was read at ``read_at``: earlier than now (``at``) where Redis is away, and None where it was
    never read. ``listeners`` has the name of each, where it listens on this host, and the connections of all
    processes of all hosts, None where its clients are not counted. ``answer_seconds`` is how long the last answer
    of Redis took, None without one.
    """

    at: float
    activity: Activity | None
    read_at: float
    processes: Sequence[SeenProcess]
    listeners: Sequence[tuple[str, str, ListenerConnections | None]]
    redis_address: str
    is_followed: bool
    lag_seconds: float
    answer_seconds: float | None
    findings: Sequence[Finding]

    @property
    def is_old(self) -> bool:
        """Whether Redis could not be read now."""
        return self.read_at < self.at

    @property
    def quarantined(self) -> int | None:
        """How many messages are in the quarantines of all hosts; None where no process knows."""
        counts = [each.status.quarantined for each in self.processes if each.status.quarantined is not None]
        return sum(counts) if counts else None

    def is_silent(self, process: SeenProcess) -> bool:
        """Return whether a process has said nothing for so long that something is wrong."""
        return self.at - process.at > SILENT_SECONDS


@dataclass(frozen=True, slots=True)
class DaemonFindings:
    """What the daemon knows to be wrong with itself, each asked at another cost.

    ``redis`` asks nobody; ``health`` may ask the next hop and the disk; ``model`` computes. ``may_publish`` says
    whether Redis lets this process say what is new.
    """

    redis: Callable[[], Sequence[Finding]]
    health: Callable[[], Awaitable[Sequence[Finding]]]
    model: Callable[[], Sequence[Finding]]
    may_publish: Callable[[], bool]


class NowReader:
    """Reads what is the case; what takes long is remembered for some seconds."""

    def __init__(
        self,
        settings: Settings,
        clients: RedisClients,
        keys: ModelKeys,
        mirror: Mirror,
        findings: DaemonFindings,
    ) -> None:
        self._clients = clients
        self._keys = keys
        self._mirror = mirror
        self._findings = findings
        self._health = _RememberedHealth(findings.health)
        self._model_findings: Sequence[Finding] = ()
        self._model_looked_at = -math.inf
        self._addresses = _listener_addresses(settings)
        self._redis_address = settings.redis.display_url
        self._reader = ActivityReader(clients.client, keys)
        self._last: dict[ActivitySpan, tuple[float, Activity, Sequence[SeenProcess]]] = {}
        self._may_listen = True

    async def now(self, span: ActivitySpan) -> Now:
        """Return what is the case now. Where Redis is away, it has what was read last."""
        findings = [*self._findings.redis(), *await self._health.findings()]
        at, started = time.time(), time.perf_counter()
        answer_seconds: float | None = None
        try:
            activity, processes = await self._reader.read(span, at)
        except StoreUnavailable:
            pass
        else:
            answer_seconds = time.perf_counter() - started
            self._last[span] = at, activity, processes
        read_at, last_activity, seen = self._last.get(span, (0.0, None, ()))
        if time.monotonic() - self._model_looked_at >= _HEALTH_SECONDS:
            self._model_findings, self._model_looked_at = self._findings.model(), time.monotonic()
        now = Now(
            at,
            last_activity,
            read_at,
            seen,
            list(self._listeners_now(seen)),
            self._redis_address,
            self._mirror.following,
            self._mirror.lag_seconds,
            answer_seconds,
            (),
        )
        return replace(now, findings=[*findings, *self._activity_findings(now), *self._model_findings])

    @asynccontextmanager
    async def open_news(self) -> AsyncIterator[ActivityWatch]:
        """Begin to listen to what is new. Raises ``StoreForbids`` or ``StoreUnavailable``."""
        try:
            async with watch_activity(self._clients.blocking_client, self._keys) as watch:
                self._may_listen = True
                yield watch
        except StoreForbids:
            self._may_listen = False
            raise

    async def close(self) -> None:
        """End the look at the health, if it goes on."""
        await self._health.close()

    def _listeners_now(
        self, processes: Sequence[SeenProcess]
    ) -> Iterator[tuple[str, str, ListenerConnections | None]]:
        sums: dict[str, ListenerConnections] = {}
        for process in processes:
            for name, connections in process.status.connections.items():
                sums[name] = sums.get(name, ListenerConnections()) + connections
        for name in dict.fromkeys([*self._addresses, *sorted(sums)]):
            yield name, self._addresses.get(name, ""), sums.get(name)

    def _activity_findings(self, now: Now) -> Iterator[Finding]:
        if not now.is_old:  # else all of them seem to be silent
            for process in filter(now.is_silent, now.processes):
                yield PROCESS_SILENT(process=_name(process), seconds=now.at - process.at)
        ahead = {process.status.host: process.at - now.at for process in now.processes}
        for host, seconds in ahead.items():
            if seconds > SILENT_SECONDS:
                yield CLOCK_AHEAD(host=host, seconds=seconds)
        versions = sorted({process.status.version for process in now.processes})
        if len(versions) > 1:
            yield VERSIONS_DIFFER(versions=" and ".join(versions))
        if now.activity and now.activity.dropped:
            yield NOT_COUNTED(count=now.activity.dropped, span=now.activity.span)
        if not self._may_listen or not self._findings.may_publish():
            yield NO_NEWS()


def _listener_addresses(settings: Settings) -> Mapping[str, str]:
    """Return where the listeners of this host listen, by their names; empty for one without an address."""
    sections = {name: getattr(settings.listeners, name) for name in type(settings.listeners).model_fields}
    return {name: str(getattr(section, "listen", "")) for name, section in sections.items() if section is not None}


def _name(process: SeenProcess) -> str:
    host, worker = process.status.host, process.status.worker
    return f"{host}, worker {worker}" if worker else host


class _RememberedHealth:
    """The health, looked at every ten seconds at most, and waited for no longer than a tenth of a second.

    The next hop is asked for it, which may take as long as its deadline: what is not known by then shows later.
    ``close`` ends the look.
    """

    def __init__(self, look: Callable[[], Awaitable[Sequence[Finding]]]) -> None:
        self._look_at_health = look
        self._known: Sequence[Finding] = ()
        self._look_again_at = 0.0
        self._looking: asyncio.Task[None] | None = None

    async def findings(self) -> Sequence[Finding]:
        """Return what is degraded, as far as it is known."""
        now = asyncio.get_running_loop().time()
        if self._looking is None or (self._looking.done() and now >= self._look_again_at):
            self._looking = asyncio.create_task(self._look(), name="page: health")
        await asyncio.wait({self._looking}, timeout=_HEALTH_WAIT_SECONDS)
        return self._known

    async def _look(self) -> None:
        try:
            self._known = await self._look_at_health()
        except Exception:  # noqa: BLE001 - the page shows what it can
            _log.exception("page: the health cannot be looked at")
        self._look_again_at = asyncio.get_running_loop().time() + _HEALTH_SECONDS

    async def close(self) -> None:
        """End the look that goes on."""
        if self._looking is not None:
            await cancel_and_wait(self._looking)
