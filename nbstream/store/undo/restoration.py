"""Taking changes back: from the history to the entries that were there before.

Rules: a message is restored by one atomic replace of its ledger entry, noted in the history like any change, so a
restoration can be taken back in turn, and after a crash the same command goes on where it was. Of the history
only what planning needs is held, under 1 kB a change and at most ``HISTORY_KEPT`` of them; entries are read one
message at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.store.model.history import Note
from nbstream.store.undo.plan import SOURCE, Change, Kept, Plan, plan

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.store.model.history import Opinion, Selection
    from nbstream.store.model.ledger import Entry
    from nbstream.store.model.model import Model


@dataclass(frozen=True, slots=True)
class Restoration:
    """What one message goes back to: from the entry ``live`` to the entry ``former``, None for none.

    The opinions are those of the history: the message itself is not at hand to be scored again.
    """

    message_key: str
    plan: Plan
    live: Entry | None
    former: Entry | None
    before: Opinion | None = None
    after: Opinion | None = None

    @property
    def changes(self) -> bool:
        """False where the message is already as it would be: a change and its reverse are both taken back."""
        return _version(self.live) != _version(self.former)


async def chosen(model: Model, selection: Selection) -> Mapping[str, Sequence[Change]]:
    """By message, newest first, all changes since the selection begins, of the messages that it chooses from."""
    found: dict[str, list[Change]] = {}
    async for record in model.history(selection.since):
        if selection.message_key in {None, record.message_key}:
            change = Change.of(record, chosen=record in selection)
            found.setdefault(record.message_key, []).append(change)
    return {key: changes for key, changes in found.items() if any(change.chosen for change in changes)}


async def prepare(model: Model, message_key: str, changes: Sequence[Change]) -> Restoration:
    """What would be done to a message now; nothing is written."""
    live = await model.entry(message_key)
    planned = plan(_version(live), changes)
    if not planned.taken:
        return Restoration(message_key, planned, live, live)
    newest, oldest = await model.record(planned.taken[0].id), await model.record(planned.taken[-1].id)
    if newest is None or oldest is None:
        trimmed = [Kept(change, "no longer in the history") for change in planned.taken]
        return Restoration(message_key, Plan((), (*trimmed, *planned.kept)), live, live)
    return Restoration(message_key, planned, live, oldest.former, newest.note.after, oldest.note.before)


async def restore(model: Model, restoration: Restoration, actor: str) -> bool:
    """Do it, in the name of ``actor``; False where somebody else changed the message meanwhile.

    Raises ``StoreUnavailable``; the same may be done again then.
    """
    if not restoration.changes:
        return True
    assert restoration.before is not None
    assert restoration.after is not None
    note = Note(SOURCE, actor, restoration.before, restoration.after)
    key, former = restoration.message_key, restoration.former
    found = await model.replace(key, restoration.live, former, note)
    # The reply may have been lost, and the write repeated: then it was done once, and is as it should be.
    return isinstance(found, bytes) or _version(found.entry) == _version(former)


def _version(entry: Entry | None) -> str | None:
    return entry.version if entry else None
