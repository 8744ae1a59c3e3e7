"""Taking changes back: from the history to the entries that were there before.

Rules: a message is restored by one atomic replace of its ledger entry, noted in the history like any change, so a
restoration can be taken back in turn, and after a crash the same command goes on where it was. Of the history
only what planning needs is held, under 1 kB a change and at most ``HISTORY_KEPT`` of them; entries are read one
message at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.store.model.history import LessonNote
from nbstream.store.undo.plan import UNDO_SOURCE, IrreversibleChange, UndoableChange, UndoPlan, plan_undo

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.store.model.history import Assessment, HistorySelection
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model


@dataclass(frozen=True, slots=True)
class Restoration:
    """What one message goes back to: from the entry ``live`` to the entry ``former``, None for none.

    The opinions are those of the history: the message itself is not at hand to be scored again.
    """

    message_key: str
    plan: UndoPlan
    current_entry: LedgerEntry | None
    restored_entry: LedgerEntry | None
    before: Assessment | None = None
    after: Assessment | None = None

    @property
    def changes_ledger(self) -> bool:
        """False where the message is already as it would be: a change and its reverse are both taken back."""
        return _entry_version(self.current_entry) != _entry_version(self.restored_entry)


async def selected_changes(model: Model, selection: HistorySelection) -> Mapping[str, Sequence[UndoableChange]]:
    """By message, newest first, all changes since the selection begins, of the messages that it chooses from."""
    found: dict[str, list[UndoableChange]] = {}
    async for record in model.history(selection.since):
        if selection.message_key in {None, record.message_key}:
            change = UndoableChange.from_record(record, chosen=record in selection)
            found.setdefault(record.message_key, []).append(change)
    return {key: changes for key, changes in found.items() if any(change.selected for change in changes)}


async def prepare_restoration(model: Model, message_key: str, changes: Sequence[UndoableChange]) -> Restoration:
    """What would be done to a message now; nothing is written."""
    live = await model.entry(message_key)
    planned = plan_undo(_entry_version(live), changes)
    if not planned.reversible:
        return Restoration(message_key, planned, live, live)
    newest, oldest = (
        await model.history_record(planned.reversible[0].id),
        await model.history_record(planned.reversible[-1].id),
    )
    if newest is None or oldest is None:
        trimmed = [IrreversibleChange(change, "no longer in the history") for change in planned.reversible]
        return Restoration(message_key, UndoPlan((), (*trimmed, *planned.irreversible)), live, live)
    return Restoration(message_key, planned, live, oldest.former, newest.note.after, oldest.note.before)


async def apply_restoration(model: Model, restoration: Restoration, actor: str) -> bool:
    """Do it, in the name of ``actor``; False where somebody else changed the message meanwhile.

    Raises ``StoreUnavailable``; the same may be done again then.
    """
    if not restoration.changes_ledger:
        return True
    assert restoration.before is not None
    assert restoration.after is not None
    note = LessonNote(UNDO_SOURCE, actor, restoration.before, restoration.after)
    key, former = restoration.message_key, restoration.restored_entry
    found = await model.commit_lesson(key, restoration.current_entry, former, note)
    # The reply may have been lost, and the write repeated: then it was done once, and is as it should be.
    return isinstance(found, bytes) or _entry_version(found.entry) == _entry_version(former)


def _entry_version(entry: LedgerEntry | None) -> str | None:
    return entry.version if entry else None
