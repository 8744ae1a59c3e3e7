"""The view now: what the filter does at this moment, and what is wrong."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.store.cancellation import cancel_and_wait
from nbstream.web.admin.activity import DAY_SECONDS, MESSAGE_CLASSES, ActivityRow, in_steps
from nbstream.web.admin.charts import Bar, draw_activity
from nbstream.web.areas import PREFIX
from nbstream.web.requests import Answer, Page, PageRequest, PageRoute, View

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.addresses import ListenAddress
    from nbstream.findings import Finding
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.web.admin.activity import ActivityRecorder

_log = logging.getLogger(__name__)

_HEALTH_SECONDS = 10.0
_HEALTH_WAIT_SECONDS = 0.1


class ActivitySpan(StrEnum):
    """The time that is looked at: up to now."""

    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class _SpanForm:
    """How a span is shown, all in seconds: its length, the steps of its chart and of its table, and its labels."""

    seconds: int
    step: int
    table_step: int
    label: int


_FORMS = {
    ActivitySpan.HOUR: _SpanForm(3600, 60, 300, 600),
    ActivitySpan.DAY: _SpanForm(DAY_SECONDS, 600, 3600, 4 * 3600),
}


@dataclass(frozen=True, slots=True)
class DaemonFindings:
    """What the daemon knows to be wrong with itself, each asked at another cost.

    ``redis`` asks nobody; ``health`` may ask the next hop and the disk; ``model`` computes.
    """

    redis: Callable[[], Sequence[Finding]]
    health: Callable[[], Awaitable[Sequence[Finding]]]
    model: Callable[[], Sequence[Finding]]


class NowView(View):
    """Shows the state of now."""

    navigation = ("/ui/", "Now")

    def __init__(
        self,
        configured_addresses: Mapping[str, str],
        redis_address: str,
        mirror: Mirror,
        findings: DaemonFindings,
        activity: ActivityRecorder,
        bound_addresses: Mapping[str, ListenAddress],
    ) -> None:
        self._mirror = mirror
        self._findings = findings
        self._health = _RememberedHealth(findings.health)
        self._activity = activity
        self._addresses = configured_addresses
        self._bound_addresses = bound_addresses
        self._redis_address = redis_address

    def routes(self) -> Iterable[PageRoute]:
        """Return the route of the view."""
        return (PageRoute("GET", PREFIX, self._show),)

    async def close(self) -> None:
        """End the look at the health, if it goes on."""
        await self._health.close()

    async def _show(self, request: PageRequest) -> Answer:
        span = _span_of(request)
        findings = [*self._findings.redis(), *await self._health.findings(), *self._findings.model()]
        now = self._activity.sample()
        listeners = [
            (name, str(self._bound_addresses.get(name, address)), now.connections.get(name))
            for name, address in self._addresses.items()
        ]
        values = {
            "at": now.at,
            "findings": findings,
            "listeners": listeners,
            "quarantined": now.quarantined,
            "redis_address": self._redis_address,
            "is_followed": self._mirror.following,
            "lag_seconds": self._mirror.lag_seconds,
            **activity_values(self._activity.rows_until(now), now.at, span),
        }
        return Page("admin/now.html", values)


def _span_of(request: PageRequest) -> ActivitySpan:
    """Return the span that is asked for; the hour where it is none."""
    try:
        return ActivitySpan(request.query.get("span", ActivitySpan.HOUR))
    except ValueError:
        return ActivitySpan.HOUR


def activity_values(rows: Sequence[ActivityRow], at: float, span: ActivitySpan) -> Mapping[str, object]:
    """Return the values for the template: the chart of a span, and the table beside it."""
    form = _FORMS[span]
    table = in_steps(rows, at, form.seconds, form.table_step)[::-1]
    steps = in_steps(rows, at, form.seconds, form.step)
    return {
        "span": span,
        "spans": tuple(ActivitySpan),
        "classes": MESSAGE_CLASSES,
        "totals": {name: sum(step.classes[name] for step in steps) for name in MESSAGE_CLASSES},
        "minutes": form.seconds / 60,
        "chart": _chart(steps, span),
        "rows": table,
    }


def _chart(steps: Sequence[ActivityRow], span: ActivitySpan) -> Markup:
    """Return the chart, in messages a minute."""
    form = _FORMS[span]
    bars = [
        Bar(
            {name: number * 60 / form.step for name, number in step.classes.items()},
            f"{_local(step.at)}: {_counts([step])}",
        )
        for step in steps
    ]
    labels = [
        (float(index), _local(step.at))
        for index, step in enumerate(steps)
        if (step.at + time.localtime(step.at).tm_gmtoff) % form.label < form.step
    ]
    title, description = "Messages a minute by verdict", f"Last {span}: {_counts(steps)}."
    return draw_activity(title, description, MESSAGE_CLASSES, bars, labels)


def _counts(steps: Sequence[ActivityRow]) -> str:
    totals = {name: sum(step.classes[name] for step in steps) for name in MESSAGE_CLASSES}
    return ", ".join(f"{number} {name}" for name, number in totals.items() if number) or "no messages"


def _local(at: float) -> str:
    return time.strftime("%H:%M", time.localtime(at))


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
