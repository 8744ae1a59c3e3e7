"""The view now: what is wrong, what is unsure and wants a label, and what people corrected last."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.policy.verdict import Verdict
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.recent.message_rows import RowFilter
from nbstream.web.admin.teaching_view import contradicts_verdict, newest_by_message
from nbstream.web.areas import PREFIX
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from prometheus_client.core import Metric

    from nbstream.addresses import ListenAddress
    from nbstream.findings import Finding
    from nbstream.store.follower.counts import FollowedCounts
    from nbstream.store.model.history import HistoryChange, RecentChanges
    from nbstream.store.recent.message_rows import MessageRow, RowSearch
    from nbstream.web.admin.messages_view import FindRows

_log = logging.getLogger(__name__)

UNCHECKED = "unchecked"
"""What a message counts as whose check failed, and that has no verdict therefore."""
MESSAGE_CLASSES = (*map(str, Verdict), UNCHECKED)
"""What messages are counted by: each message counts in one of these classes."""
_CLASS_BY_VERDICT = {name: name for name in map(str, Verdict)} | {"none": UNCHECKED}  # a canary is no mail

_SHOWN = 10
_HEALTH_SECONDS = 10.0
_HEALTH_WAIT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class MetricsSample:
    """What the metrics of the daemon, of all workers, say.

    ``messages`` are those checked since the start, by class. ``connections`` are those of each listener: how many
    are ``open``, and were ``accepted`` and ``refused`` since the start. ``quarantined`` is the number of messages
    in the quarantine.
    """

    messages: Mapping[str, int]
    connections: Mapping[str, Mapping[str, int]]
    quarantined: int

    @classmethod
    def of(cls, families: Iterable[Metric]) -> MetricsSample:
        """Return what these metrics say."""
        messages, connections, quarantined = Counter[str](), dict[str, Counter[str]](), 0
        for sample in (sample for family in families for sample in family.samples):
            labels, value = sample.labels, sample.value  # a threshold out of reach is infinite
            match sample.name:
                case "nbstream_messages_total" if labels["verdict"] in _CLASS_BY_VERDICT:
                    messages[_CLASS_BY_VERDICT[labels["verdict"]]] += int(value)
                case "nbstream_connections_total" | "nbstream_connections_open":
                    counts = connections.setdefault(labels["listener"], Counter())
                    counts[labels.get("outcome", "open")] += int(value)
                case "nbstream_quarantine_messages":
                    quarantined = int(value)
        return cls(messages, connections, quarantined)


@dataclass(frozen=True, slots=True)
class DaemonFindings:
    """What the daemon knows to be wrong with itself, each asked at another cost.

    ``redis`` asks nobody; ``health`` may ask the next hop and the disk; ``model`` computes.
    """

    redis: Callable[[], Sequence[Finding]]
    health: Callable[[], Awaitable[Sequence[Finding]]]
    model: Callable[[], Sequence[Finding]]


@dataclass(frozen=True, kw_only=True, slots=True)
class DaemonState:
    """What there is to see of the daemon: where it listens and is to listen, its Redis, and its ``metrics``."""

    configured_addresses: Mapping[str, str]
    bound_addresses: Mapping[str, ListenAddress]
    redis_address: str
    counts: FollowedCounts
    metrics: Callable[[], Iterable[Metric]]


@dataclass(frozen=True, slots=True)
class RecentMail:
    """Where the view finds messages; ``find_labels`` returns what messages are learned as, by their ids."""

    rows: RowSearch
    find_rows: FindRows
    find_labels: Callable[[Sequence[str]], Awaitable[Mapping[str, str]]]
    changes: RecentChanges


class NowView(View):
    """Shows the state of now."""

    navigation = (PREFIX, "Now")

    def __init__(self, daemon: DaemonState, findings: DaemonFindings, mail: RecentMail) -> None:
        self._daemon = daemon
        self._findings = findings
        self._health = _RememberedHealth(findings.health)
        self._mail = mail

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", PREFIX, self._show),)

    async def close(self) -> None:
        """End the look at the health, if it goes on."""
        await self._health.close()

    async def _show(self, _: PageRequest) -> Answer:
        daemon = self._daemon
        findings = [*self._findings.redis(), *await self._health.findings(), *self._findings.model()]
        unsure, corrections = await self._find_mail()
        sample = MetricsSample.of(daemon.metrics())
        values = {
            "at": time.time(),
            "findings": findings,
            "unsure": unsure,
            "corrections": corrections,
            "rows": await self._mail.find_rows({change.message_key for change in corrections}),
            "listeners": [
                (name, str(daemon.bound_addresses.get(name, address)), sample.connections.get(name))
                for name, address in daemon.configured_addresses.items()
            ],
            "totals": {name: sample.messages.get(name, 0) for name in MESSAGE_CLASSES},
            "quarantined": sample.quarantined,
            "redis_address": daemon.redis_address,
            "is_followed": daemon.counts.is_current,
            "lag_seconds": daemon.counts.lag_seconds,
        }
        return Page("admin/now.html", values)

    async def _find_mail(self) -> tuple[Sequence[MessageRow], Sequence[HistoryChange]]:
        """Return the newest unsure messages without a label, and the last labels against a verdict.

        Where Redis is away there are none: the findings say so.
        """
        mail = self._mail
        try:
            unsure = (await mail.rows.search(RowFilter(verdict=Verdict.UNSURE))).rows
            labels = await mail.find_labels([row.id for row in unsure])
            changes = await mail.changes.read()
        except StoreUnavailable:
            return (), ()
        corrections = filter(contradicts_verdict, newest_by_message(changes))
        return [row for row in unsure if row.id not in labels][:_SHOWN], list(islice(corrections, _SHOWN))


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
            _log.exception("page: the health is unknown")
        self._look_again_at = asyncio.get_running_loop().time() + _HEALTH_SECONDS

    async def close(self) -> None:
        """End the look that goes on."""
        if self._looking is not None:
            await cancel_and_wait(self._looking)
