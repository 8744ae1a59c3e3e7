"""The view teaching: what was learned, who taught it, and what is worth a look.

Rules: all of it comes from the last changes of the history, which each process reads on from where it was; the
numbers are computed in one thread for all who ask, and again only when there is a new change or a new day.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.listeners.http.page.change_selection import ChangeSelection, form_time
from nbstream.listeners.http.page.charts.activity_chart import ActivityChart, Bar, draw_activity
from nbstream.listeners.http.page.requests import Answer, Page, PageRefused, PageRequest
from nbstream.listeners.http.page.routes import PageRoute
from nbstream.listeners.http.page.teaching_summary import page_of_changes, summarize_teaching
from nbstream.store.model.history import is_stream_id

if TYPE_CHECKING:
    from markupsafe import Markup

    from nbstream.listeners.http.page.known_rows import FindRows
    from nbstream.listeners.http.page.teaching_summary import DayOfTeaching, TeachingSummary
    from nbstream.policy.verdict import ModelState
    from nbstream.store.model.history import HistoryChange, HistorySelection

_PAGE = 50
_TICK_DAYS = 7


class ChangeSource(Protocol):
    """The last changes of the history (``store.model.recent_changes``)."""

    @property
    def known(self) -> Sequence[HistoryChange]:
        """The changes as they were read last, newest first."""

    @property
    def limit(self) -> int:
        """How many changes there are at most."""

    async def read(self) -> Sequence[HistoryChange]:
        """Return the changes as they are now, newest first. Raises ``StoreUnavailable``."""


class TeachingView:
    """Shows the last changes of the history.

    ``model_state`` returns None before the counts are loaded, and ``autolearned`` how many messages of each class
    were learned without people, None where none are.
    """

    def __init__(
        self,
        changes: ChangeSource,
        model_state: Callable[[], ModelState | None],
        autolearned: Callable[[], Mapping[str, int] | None],
        find_rows: FindRows,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._changes = changes
        self._model_state = model_state
        self._autolearned = autolearned
        self._find_rows = find_rows
        self._clock = clock
        self._summary: tuple[object, TeachingSummary] | None = None
        self._one_at_a_time = asyncio.Lock()

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
        return (PageRoute("GET", "/ui/teaching", self._show),)

    async def _show(self, request: PageRequest) -> Answer:
        wanted = ChangeSelection.from_fields(request.query)
        selection, problem = _read_selection(wanted, self._clock())
        before = request.query.get("before", "").encode()
        if before and not is_stream_id(before):
            raise PageRefused(400, "There is no such page of the list.")
        changes, is_old = await self._read()
        summary = await self._summarize(changes)
        selected = [change for change in changes if selection and change in selection]
        page, rest = page_of_changes(selected, before or None, _PAGE)
        listed = [change.message_key for change in (*page, *summary.contradictions)]
        disputed = [dispute.message_key for dispute in summary.disputes]
        return Page(
            "teaching.html",
            {
                "rows": await self._find_rows({*listed, *disputed}),
                "wanted": wanted,
                "problem": problem,
                "page": page,
                "undo_query": _undo_query(wanted, selected),
                "next_query": wanted.query(before=rest.decode()) if rest else "",
                "is_first": not before,
                "is_old": is_old,
                "is_cut": len(changes) >= self._changes.limit,
                "summary": summary,
                "chart": _draw_days(summary.days),
                "state": self._model_state(),
                "autolearned": self._autolearned(),
            },
            status=400 if problem else 200,
        )

    async def _read(self) -> tuple[Sequence[HistoryChange], bool]:
        """Return the changes, and whether they may be old because Redis is away."""
        try:
            return await self._changes.read(), False
        except StoreUnavailable:
            if not self._changes.known:
                raise
            return self._changes.known, True

    async def _summarize(self, changes: Sequence[HistoryChange]) -> TeachingSummary:
        now = self._clock()
        basis = changes[0].id if changes else b"", datetime.fromtimestamp(now).astimezone().date()
        async with self._one_at_a_time:
            if self._summary is None or self._summary[0] != basis:
                self._summary = basis, await asyncio.to_thread(summarize_teaching, changes, now)
            return self._summary[1]


def _read_selection(wanted: ChangeSelection, now: float) -> tuple[HistorySelection | None, str]:
    """Return what the form selects, or None and what is wrong with the form."""
    try:
        return wanted.of_history(now), ""
    except PageRefused as refused:
        return None, refused.text


def _undo_query(wanted: ChangeSelection, selected: Sequence[HistoryChange]) -> str:
    """Return the query of the view undo for all that is selected; an undo wants a time that it begins with."""
    if selected and not wanted.since and not wanted.id:
        wanted = replace(wanted, since=form_time(selected[-1].at))
    return wanted.query()


def _draw_days(days: Sequence[DayOfTeaching]) -> Markup:
    bars = [
        Bar(
            day.learned,
            (
                f"{day.day.isoformat()}: {day.learned['ham']} ham, {day.learned['spam']} spam, "
                f"{day.taken_back} taken back"
            ),
        )
        for day in days
    ]
    ticks = [(number, day.day.strftime("%m-%d")) for number, day in enumerate(days)][::-_TICK_DAYS]
    learned = {label: sum(day.learned[label] for day in days) for label in CLASSES}
    description = (
        f"In the last {len(days)} days {learned['ham']} messages were taught as ham and {learned['spam']} as spam."
    )
    return draw_activity(ActivityChart("Learned per day", description, CLASSES, bars, ticks))
