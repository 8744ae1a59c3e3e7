"""The undo itself: each message gets the ledger entry back that it had before the undone changes.

Rules: one atomic write of its ledger entry restores a message. The write is noted in the history like any change;
therefore a restoration can be undone as well, and after a crash the same command continues where it was. Only what
a plan needs is in memory, less than 1 kB a change and at most ``MAX_HISTORY_RECORDS`` of them; ledger entries are
read one message at a time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.store.model.history import UNDO_SOURCE, LessonNote
from nbstream.store.undo.plan import IrreversibleChange, UndoableChange, UndoPlan, plan_undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.store.model.history import Assessment, HistorySelection
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model


@dataclass(frozen=True, slots=True)
class Restoration:
    """The undo of one message: ``restored_entry`` replaces ``current_entry``; None is no entry.

    The assessments ``before`` and ``after`` are those in the history, because the message itself is not available
    to be checked again.
    """

    message_key: str
    plan: UndoPlan
    current_entry: LedgerEntry | None
    restored_entry: LedgerEntry | None
    before: Assessment | None = None
    after: Assessment | None = None

    @property
    def changes_ledger(self) -> bool:
        """False if the message is already as it is to be, as when a change and its reverse are both undone."""
        return _entry_version(self.current_entry) != _entry_version(self.restored_entry)


class TooManyChanges(Exception):
    """The history has more changes since the selection begins than may be looked at."""


async def selected_changes(
    model: Model, selection: HistorySelection, max_changes: int | None = None
) -> Mapping[str, Sequence[UndoableChange]]:
    """Return for each message with a selected change all its changes since the selection begins, newest first.

    Raises ``TooManyChanges`` where the history has more than ``max_changes`` since then, of whatever message.
    """
    changes_of: dict[str, list[UndoableChange]] = {}
    seen = 0
    async for change in model.history.changes(selection.since):
        seen += 1
        if max_changes is not None and seen > max_changes:
            raise TooManyChanges
        if selection.message_key in {None, change.message_key}:
            undoable = UndoableChange.from_history(change, selected=change in selection)
            changes_of.setdefault(change.message_key, []).append(undoable)
    return {key: changes for key, changes in changes_of.items() if any(change.selected for change in changes)}


async def prepare_restoration(model: Model, message_key: str, changes: Sequence[UndoableChange]) -> Restoration:
    """Return what the undo of these changes would do to the message now; nothing is written."""
    entry = await model.entry(message_key)
    plan = plan_undo(_entry_version(entry), changes)
    if not plan.reversible:
        return Restoration(message_key, plan, entry, entry)
    newest = await model.history.record(plan.reversible[0].id)
    oldest = await model.history.record(plan.reversible[-1].id)
    if newest is None or oldest is None:
        trimmed = [IrreversibleChange(change, "no longer in the history") for change in plan.reversible]
        return Restoration(message_key, UndoPlan((), (*trimmed, *plan.irreversible)), entry, entry)
    return Restoration(message_key, plan, entry, oldest.former, newest.note.after, oldest.note.before)


async def apply_restoration(model: Model, restoration: Restoration, actor: str) -> bool:
    """Write the restoration in the name of ``actor``; return False if somebody else changed the message since.

    Raises ``StoreUnavailable``; the same restoration may then be tried again.
    """
    if not restoration.changes_ledger:
        return True
    assert restoration.before is not None
    assert restoration.after is not None
    note = LessonNote(UNDO_SOURCE, actor, restoration.before, restoration.after, made_at=time.time())
    key, restored_entry = restoration.message_key, restoration.restored_entry
    result = await model.commit_lesson(key, restoration.current_entry, restored_entry, note)
    # If the reply was lost and the write repeated, the ledger already has the restored entry: that is a success.
    return isinstance(result, bytes) or _entry_version(result.entry) == _entry_version(restored_entry)


def _entry_version(entry: LedgerEntry | None) -> str | None:
    return entry.version if entry else None
