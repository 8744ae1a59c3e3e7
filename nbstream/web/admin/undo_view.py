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

from nbstream.filter.undo import TooManyChanges, UndoOutcome, selected_changes, undo_changes
from nbstream.logs import event_fields
from nbstream.web.admin.messages_view import rows_of_results
from nbstream.web.admin.teaching_view import MILLISECOND, ChangeSelection, form_time
from nbstream.web.requests import Answer, Page, PageRefused, PageRequest, PageRoute, Redirect, View

if TYPE_CHECKING:
    from nbstream.filter.undo import ChangeOutcome, UndoableChange
    from nbstream.store.model.history import HistorySelection
    from nbstream.store.model.model import Model
    from nbstream.web.admin.messages_view import FindRows

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
    """Shows what an undo would do, and does it. ``class_names`` returns the classes that can be taught."""

    def __init__(
        self,
        model: Model,
        find_rows: FindRows,
        class_names: Callable[[], Sequence[str]],
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._model = model
        self._find_rows = find_rows
        self._class_names = class_names
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
        values: dict[str, object] = {
            "wanted": wanted,
            "class_names": self._class_names(),
            "problem": "",
            "outcomes": None,
        }
        if wanted.since or wanted.id:
            try:
                values |= await self._preview_values(wanted)
            except PageRefused as refused:  # said beside the form, which keeps what was written
                return Page("admin/undo.html", values | {"problem": refused.text}, refused.status)
        return Page("admin/undo.html", values)

    async def _preview_values(self, wanted: ChangeSelection) -> dict[str, object]:
        """Return what the template says of an undo. Raises ``PageRefused``."""
        outcomes: list[ChangeOutcome] = []
        selection = wanted.of_history(self._clock())
        async with _working(self._one_preview):
            changes = await self._select(selection)
            counts = await undo_changes(self._model, changes, outcomes.append, None)
        shown = {outcome.change.message_key for outcome in outcomes[:_SHOWN]}
        return {
            "confirmed": _what_was_shown(wanted, selection, outcomes),
            "outcomes": outcomes[:_SHOWN],
            "rows": await rows_of_results(self._find_rows, shown),
            "done": describe_undo(counts),
            "hidden": max(0, len(outcomes) - _SHOWN),
            "undoable": counts[UndoOutcome.WOULD_BE_TAKEN_BACK],
        }

    async def _undo(self, request: PageRequest) -> Answer:
        wanted = ChangeSelection.from_fields({name: request.form_value(name) for name in request.form})
        if not wanted.since and not wanted.id:
            raise PageRefused(400, "Enter a time in Since, or the id of a message.")
        async with _working(self._one_undo):
            changes = await self._select(wanted.of_history(self._clock()))
            counts = await undo_changes(self._model, changes, lambda _: None, request.session.name)
        _log_undo(counts, request.session.name)
        return Redirect("/ui/teaching?source=undo", describe_undo(counts))

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


def describe_undo(counts: Mapping[UndoOutcome, int]) -> str:
    """Return what an undo did, in one sentence for each outcome."""
    sentences = [
        _OUTCOMES[outcome][count != 1].format(count=count)
        for outcome in UndoOutcome
        if (count := counts.get(outcome, 0))
    ]
    return " ".join(sentences) or "Nothing was taken back."


def _log_undo(counts: Mapping[UndoOutcome, int], actor: str) -> None:
    fields = {outcome.replace(" ", "_"): count for outcome, count in counts.items()}
    _log.info("page: lessons were taken back", extra=event_fields(actor=actor, **fields))
