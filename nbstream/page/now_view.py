"""The view now: what the filter does at this moment, and what is wrong."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from nbstream.page.charts import Bar, draw_activity
from nbstream.page.live_now import LiveNow
from nbstream.page.requests import PREFIX, Answer, EventStream, Page, PageRequest, PageRoute, View
from nbstream.store.activity import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MESSAGE_CLASSES,
    Activity,
    ActivitySpan,
    ActivityStep,
)

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.page.now import Now, NowReader

EVENTS_PATH = f"{PREFIX}events"

# The steps of the table below the chart, in seconds, and how far apart the labels of the chart are, in steps.
_TABLE_SECONDS = {ActivitySpan.HOUR: 300, ActivitySpan.DAY: HOUR_SECONDS, ActivitySpan.WEEK: DAY_SECONDS}
_LABEL_SECONDS = {ActivitySpan.HOUR: 600, ActivitySpan.DAY: 4 * HOUR_SECONDS, ActivitySpan.WEEK: DAY_SECONDS}
_TIME_FORMS = {ActivitySpan.HOUR: "%H:%M", ActivitySpan.DAY: "%H:%M", ActivitySpan.WEEK: "%a %d"}
_STEP_FORMS = {ActivitySpan.HOUR: "%H:%M", ActivitySpan.DAY: "%a %H:%M", ActivitySpan.WEEK: "%a %d %H:%M"}


class NowView(View):
    """Shows the state of now, and pushes it while somebody looks.

    ``render_parts`` makes HTML of the parts of a page that are pushed, by the ids of their elements.
    """

    navigation = ("/ui/", "Now")

    def __init__(self, reader: NowReader, render_parts: Callable[[Page], Awaitable[Mapping[str, str]]]) -> None:
        self._reader = reader
        self._render_parts = render_parts
        self._live = LiveNow(reader.open_news, self._render_span)

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes."""
        return PageRoute("GET", PREFIX, self._show), PageRoute("GET", EVENTS_PATH, self._listen)

    async def close(self) -> None:
        """End what is pushed, and what the reader does."""
        await self._live.close()
        await self._reader.close()

    async def _show(self, request: PageRequest) -> Answer:
        return await self._page(_span_of(request))

    async def _listen(self, request: PageRequest) -> Answer:
        span = _span_of(request)
        return EventStream(lambda: self._live.subscribe(span))

    async def _page(self, span: ActivitySpan) -> Page:
        now = await self._reader.now(span)
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
        "chart": activity_chart(activity) if activity else None,
        "rows": _table_rows(activity) if activity else (),
        "row_form": _STEP_FORMS[span] if span is not ActivitySpan.WEEK else "%a %d",
    }


def _table_rows(activity: Activity) -> Sequence[ActivityStep]:
    """Return the rows of the table, the newest first; longer steps than those of the chart."""
    return activity.grouped(partial(_local_start, _TABLE_SECONDS[activity.span]))[::-1]


def _local_start(seconds: int, at: int) -> int:
    """Return where the step of this length begins that ``at`` is in, by the time zone of the daemon."""
    then = time.localtime(at)
    if seconds == DAY_SECONDS:  # a day in which the clocks are changed is longer or shorter
        return int(time.mktime((*then[:3], 0, 0, 0, 0, 0, -1)))
    return at - (at + then.tm_gmtoff) % seconds


def activity_chart(activity: Activity) -> Markup:
    """Return the chart of an activity, in messages a minute."""
    span, minutes = activity.span, activity.span.step_seconds / 60
    totals = activity.totals
    counts = ", ".join(f"{totals[name]} {name}" for name in MESSAGE_CLASSES)
    bars = [
        Bar(
            {name: number / minutes for name, number in step.classes.items()},
            f"{_local(step.at, _STEP_FORMS[span])}: {_counts(step)}",
        )
        for step in activity.steps
    ]
    return draw_activity(
        "Messages a minute by verdict", f"Last {span}: {counts}.", MESSAGE_CLASSES, bars, _labels(activity)
    )


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
