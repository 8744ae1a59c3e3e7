"""The view undo: take back what was taught, after a look at what that would do, as ``nbstream undo`` does.

Rules: one undo and one preview at a time in each process, of a bounded number of changes and within a deadline;
larger ones are for the command. Whoever may only read cannot keep an undo waiting. What is confirmed is what was
shown: what was taught since then is not selected.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from nbstream.filter.undo import MAX_PREVIEWED, UndoOutcome, preview_undo, undo_changes
from nbstream.listeners.http.access import Role
from nbstream.logs import event_fields
from nbstream.page.requests import Answer, Page, PageRefused, PageRequest, PageRoute, Redirect, View
from nbstream.page.teaching_view import MILLISECOND, ChangeSelection, form_time
from nbstream.store.undo import TooManyChanges, selected_changes

if TYPE_CHECKING:
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.undo import ChangeOutcome, HypotheticalCounts, UndoSummary
    from nbstream.page.messages_view import FindRows
    from nbstream.store.model.history import HistorySelection
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import RecentMessages
    from nbstream.store.undo import UndoableChange

_log = logging.getLogger(__name__)

MAX_READ = 20_000
"""So many changes of the history are read for one undo."""

MAX_SELECTED = 2_000
"""So many changes are taken back at once."""

_SHOWN = 200  # changes of a preview, the newest
_DEADLINE_SECONDS = 60.0

_OUTCOMES = {  # one change, and several
    UndoOutcome.WOULD_BE_TAKEN_BACK: ("1 change would be taken back.", "{count:,} changes would be taken back."),
    UndoOutcome.TAKEN_BACK: ("1 change was taken back.", "{count:,} changes were taken back."),
    UndoOutcome.ALREADY_SO: ("1 change is taken back already.", "{count:,} changes are taken back already."),
    UndoOutcome.STAYS: ("1 change stays.", "{count:,} changes stay."),
}
_Changes: TypeAlias = "Mapping[str, Sequence[UndoableChange]]"


class UndoView(View):
    """Shows what an undo would do, and does it; ``make_scorer`` makes a scorer over other counts."""

    def __init__(
        self,
        model: Model,
        checked_messages: RecentMessages,
        make_scorer: Callable[[HypotheticalCounts], Scorer],
        find_rows: FindRows,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._checked_messages = checked_messages
        self._make_scorer = make_scorer
        self._find_rows = find_rows
        self._clock = clock
        self._one_preview = asyncio.Lock()
        self._one_undo = asyncio.Lock()

    def routes(self) -> Iterable[PageRoute]:
        """Return the routes that the view answers."""
        return (
            PageRoute("GET", "/ui/undo", self._preview),
            PageRoute("POST", "/ui/undo", self._undo),
        )

    async def _preview(self, request: PageRequest) -> Answer:
        wanted = ChangeSelection.from_fields(request.query)
        may_undo = request.session.role.includes(Role.TEACH) and request.session.is_verified
        values: dict[str, object] = {"wanted": wanted, "problem": "", "may_undo": may_undo, "preview": None}
        if wanted.since or wanted.id:
            try:
                values |= await self._preview_values(wanted)
            except PageRefused as refused:  # said beside the form, which keeps what was written
                return Page("undo.html", values | {"problem": refused.text}, refused.status)
        return Page("undo.html", values)

    async def _preview_values(self, wanted: ChangeSelection) -> dict[str, object]:
        """Return what the template says of an undo. Raises ``PageRefused``."""
        outcomes: list[ChangeOutcome] = []
        selection = wanted.of_history(self._clock())
        async with _working(self._one_preview):
            changes = await self._select(selection)
            summary = await preview_undo(
                self._model,
                changes,
                self._checked_messages.newest(MAX_PREVIEWED),
                self._make_scorer,
                outcomes.append,
            )
        return {
            "confirmed": _what_was_shown(wanted, selection, outcomes),
            "preview": summary,
            "outcomes": outcomes[:_SHOWN],
            "rows": await self._find_rows({outcome.message_key for outcome in outcomes[:_SHOWN]}),
            "done": describe_undo(summary),
            "hidden": max(0, len(outcomes) - _SHOWN),
            "undoable": summary.outcomes.get(UndoOutcome.WOULD_BE_TAKEN_BACK, 0),
        }

    async def _undo(self, request: PageRequest) -> Answer:
        wanted = ChangeSelection.from_fields({name: request.form_value(name) for name in request.form})
        if not wanted.since and not wanted.id:
            raise PageRefused(400, "Enter a time in Since, or the id of a message.")
        async with _working(self._one_undo):
            changes = await self._select(wanted.of_history(self._clock()))
            summary = await undo_changes(self._model, changes, request.session.name, lambda _: None)
        _log_undo(summary, request.session.name)
        return Redirect("/ui/teaching?source=undo", describe_undo(summary))

    async def _select(self, selection: HistorySelection) -> _Changes:
        try:
            changes = await selected_changes(self._model, selection, MAX_READ)
        except TooManyChanges as error:
            raise PageRefused(
                400, f"These are more than {MAX_READ:,} changes: choose fewer, or run nbstream undo."
            ) from error
        if sum(change.is_selected for of_message in changes.values() for change in of_message) > MAX_SELECTED:
            raise PageRefused(
                400, f"These are more than {MAX_SELECTED:,} changes: choose fewer, or run nbstream undo."
            )
        return changes


@asynccontextmanager
async def _working(one_at_a_time: asyncio.Lock) -> AsyncIterator[None]:
    if one_at_a_time.locked():
        raise PageRefused(503, "Another undo or preview is at work. Please try again in a minute.")
    try:
        async with one_at_a_time, asyncio.timeout(_DEADLINE_SECONDS):
            yield
    except TimeoutError as error:
        raise PageRefused(
            503,
            (
                "This took too long and was stopped. The history says what was taken back by then. Do the same "
                "once more for the rest."
            ),
        ) from error


def _what_was_shown(
    wanted: ChangeSelection, selection: HistorySelection, outcomes: Sequence[ChangeOutcome]
) -> ChangeSelection:
    """Return the selection with times instead of ages, which ends with the newest change that was shown."""
    newest = max((outcome.change.at for outcome in outcomes), default=0.0)
    since = form_time(selection.since) if wanted.since else ""
    return replace(wanted, since=since, until=form_time(newest + MILLISECOND))


def describe_undo(summary: UndoSummary) -> str:
    """Return what an undo did, in one sentence for each outcome."""
    sentences = [
        _OUTCOMES[outcome][count != 1].format(count=count)
        for outcome in UndoOutcome
        if (count := summary.outcomes.get(outcome, 0))
    ]
    return " ".join(sentences) or "Nothing was taken back."


def _log_undo(summary: UndoSummary, actor: str) -> None:
    counts = {outcome.replace(" ", "_"): count for outcome, count in summary.outcomes.items()}
    _log.info("page: lessons were taken back", extra=event_fields(actor=actor, **counts))
