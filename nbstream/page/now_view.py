"""The view now: what the filter does at this moment, and what is wrong."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol

from nbstream.page.activity_chart import ActivityChart, Bar, draw_activity
from nbstream.page.live_now import ActivityNews, LiveNow
from nbstream.page.requests import PREFIX, Answer, EventStream, Page, PageRequest, PageRoute
from nbstream.store.activity import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MESSAGE_CLASSES,
    UNCHECKED,
    Activity,
    ActivitySpan,
    ActivityStep,
    SeenProcess,
)

if TYPE_CHECKING:
    from nbstream.findings import Finding, Severity
    from nbstream.store.activity import ListenerConnections

EVENTS_PATH = f"{PREFIX}events"
_MAX_FINDINGS = 50

# The steps of the table below the chart, in seconds, and how far apart the labels of the chart are, in steps.
_TABLE_SECONDS = {ActivitySpan.HOUR: 300, ActivitySpan.DAY: HOUR_SECONDS, ActivitySpan.WEEK: DAY_SECONDS}
_LABEL_SECONDS = {ActivitySpan.HOUR: 600, ActivitySpan.DAY: 4 * HOUR_SECONDS, ActivitySpan.WEEK: DAY_SECONDS}
_TIME_FORMS = {ActivitySpan.HOUR: "%H:%M", ActivitySpan.DAY: "%H:%M", ActivitySpan.WEEK: "%a %d"}
_STEP_FORMS = {ActivitySpan.HOUR: "%H:%M", ActivitySpan.DAY: "%a %H:%M", ActivitySpan.WEEK: "%a %d %H:%M"}


@dataclass(frozen=True, slots=True)
class ListenerNow:
    """A listener: where it listens on this host, and the connections of all processes of all hosts.

    ``connections`` are None for a listener whose clients are not counted.
    """

    name: str
    address: str
    connections: ListenerConnections | None


@dataclass(frozen=True, slots=True)
class ProcessNow:
    """A process of a host; ``is_silent``: it has said nothing for so long that something is wrong."""

    seen: SeenProcess
    is_silent: bool


@dataclass(frozen=True, slots=True)
class RedisNow:
    """Redis as this process uses it; ``answer_seconds`` is how long its last answer took, None without one."""

    address: str
    is_followed: bool
    lag_seconds: float
    answer_seconds: float | None


@dataclass(frozen=True, slots=True)
class Now:
    """All that the view shows.

    ``activity`` was read at ``read_at``: earlier than now (``at``) where Redis is away, and None where it was
    never read. ``quarantined`` is the number of messages in the quarantines of all hosts, None where nobody knows.
    """

    at: float
    activity: Activity | None
    read_at: float
    processes: Sequence[ProcessNow]
    listeners: Sequence[ListenerNow]
    redis: RedisNow
    quarantined: int | None
    findings: Sequence[Finding]

    @property
    def is_old(self) -> bool:
        """Whether Redis could not be read now."""
        return self.read_at < self.at


class NowSource(Protocol):
    """Knows what the view shows."""

    async def now(self, span: ActivitySpan) -> Now:
        """Return what is the case now; what cannot be read is said in it."""

    def open_news(self) -> AbstractAsyncContextManager[ActivityNews]:
        """Begin to listen to what is new; see ``live_now.OpenNews``."""

    async def close(self) -> None:
        """End what goes on between two calls."""


class NowView:
    """Shows the state of now, and pushes it while somebody looks.

    ``render_parts`` makes HTML of the parts of a page that are pushed, by the ids of their elements.
    """

    def __init__(self, source: NowSource, render_parts: Callable[[Page], Awaitable[Mapping[str, str]]]) -> None:
        self._source = source
        self._render_parts = render_parts
        self._live = LiveNow(source.open_news, self._render_span)

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes."""
        return PageRoute("GET", PREFIX, self._show), PageRoute("GET", EVENTS_PATH, self._listen)

    async def close(self) -> None:
        """End what is pushed, and what the source does."""
        await self._live.close()
        await self._source.close()

    async def _show(self, request: PageRequest) -> Answer:
        return await self._page(_span_of(request))

    async def _listen(self, request: PageRequest) -> Answer:
        span = _span_of(request)
        return EventStream(lambda: self._live.subscribe(span))

    async def _page(self, span: ActivitySpan) -> Page:
        now = await self._source.now(span)
        await asyncio.sleep(0)  # checks go on
        return Page("now.html", view_values(now, span))

    async def _render_span(self, span: ActivitySpan) -> Mapping[str, str]:
        return await self._render_parts(await self._page(span))


def _span_of(request: PageRequest) -> ActivitySpan:
    """Return the span that is asked for; the hour where it is none."""
    try:
        return ActivitySpan(request.query.get("span", ActivitySpan.HOUR))
    except ValueError:
        return ActivitySpan.HOUR


def view_values(now: Now, span: ActivitySpan) -> Mapping[str, object]:
    """Return the values for the template."""
    activity = now.activity
    return {
        "now": now,
        "span": span,
        "spans": tuple(ActivitySpan),
        "events_path": f"{EVENTS_PATH}?span={span}",
        "classes": MESSAGE_CLASSES,
        "severities": _severities(now.findings),
        "findings": sorted(now.findings, key=lambda finding: -finding.severity.rank)[:_MAX_FINDINGS],
        "chart": activity_chart(activity) if activity else None,
        "totals": _totals(activity) if activity else (),
        "unchecked": activity.totals[UNCHECKED] if activity else 0,
        "rows": _table_rows(activity) if activity else (),
        "row_form": _STEP_FORMS[span] if span is not ActivitySpan.WEEK else "%a %d",
        "latencies": [
            (share, activity.latency(share)) for share in (0.5, 0.99) if activity and activity.latencies
        ],
    }


def _severities(findings: Sequence[Finding]) -> Sequence[tuple[Severity, int]]:
    """Return how many findings there are of each severity, the worst first."""
    counts = Counter(finding.severity for finding in findings)
    return sorted(counts.items(), key=lambda counted: -counted[0].rank)


@dataclass(frozen=True, slots=True)
class ClassTotal:
    """A class of messages: how many they are, which share of all, and how many a minute."""

    name: str
    count: int
    share: float
    a_minute: float


def _totals(activity: Activity) -> Sequence[ClassTotal]:
    totals, minutes = activity.totals, activity.span.seconds / 60
    everything = max(1, sum(totals.values()))
    return [ClassTotal(name, count, count / everything, count / minutes) for name, count in totals.items()]


def _table_rows(activity: Activity) -> Sequence[ActivityStep]:
    """Return the rows of the table, the newest first; longer steps than those of the chart."""
    return activity.grouped(partial(_local_start, _TABLE_SECONDS[activity.span]))[::-1]


def _local_start(seconds: int, at: int) -> int:
    """Return where the step of this length begins that ``at`` is in, by the time zone of the daemon."""
    then = time.localtime(at)
    if seconds == DAY_SECONDS:  # a day in which the clocks are changed is longer or shorter
        return int(time.mktime((*then[:3], 0, 0, 0, 0, 0, -1)))
    return at - (at + then.tm_gmtoff) % seconds


def activity_chart(activity: Activity) -> str:
    """Return the chart of an activity, in messages a minute."""
    span, minutes = activity.span, activity.span.step_seconds / 60
    totals = activity.totals
    counts = ", ".join(f"{totals[name]} {name}" for name in MESSAGE_CLASSES)
    summary = f"Last {span}: {counts}."
    bars = [
        Bar(
            {name: number / minutes for name, number in step.classes.items()},
            f"{_local(step.at, _STEP_FORMS[span])}: {_counts(step)}",
        )
        for step in activity.steps
    ]
    chart = ActivityChart("Messages a minute by verdict", summary, MESSAGE_CLASSES, bars, _labels(activity))
    return draw_activity(chart)


def _counts(step: ActivityStep) -> str:
    return ", ".join(f"{number} {name}" for name in MESSAGE_CLASSES if (number := step.classes.get(name, 0)))


def _labels(activity: Activity) -> Sequence[tuple[float, str]]:
    """Return the labels below the chart: at round times of the time zone of the daemon."""
    span = activity.span
    return [
        (float(index), _local(step.at, _TIME_FORMS[span]))
        for index, step in enumerate(activity.steps)
        if (step.at + time.localtime(step.at).tm_gmtoff) % _LABEL_SECONDS[span] < span.step_seconds
    ]


def _local(at: float, form: str) -> str:
    return time.strftime(form, time.localtime(at))
