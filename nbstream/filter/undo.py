"""Undo: a pure plan of which changes of a message can be undone, the write that restores it, and what it did.

Rules: the changes of a message are undone newest first, and each one only if the message is still as that
change left it: the ledger entry has the version that the change wrote; or, after an unlearn, there is no entry and
nobody else has changed the message since. The message goes back to the entry that the oldest of the undone changes
replaced. Therefore one write restores it, and a plan made again after that write changes nothing.

One atomic write of its ledger entry restores a message. The write is noted in the history like any change;
therefore an undo can be undone as well, and after a crash the same command continues where it was. Only what
a plan needs is in memory, less than 1 kB a change and at most ``MAX_HISTORY_RECORDS`` of them; ledger entries are
read one message at a time. A change that cannot be undone is reported with its reason, and stands in the way of no
other. The message that was changed last comes first, and within a message its newest change.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from nbstream.store.model.history import UNDO_SOURCE, LessonNote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nbstream.store.model.history import Assessment, HistoryChange, HistorySelection
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model


class UndoableChange(NamedTuple):
    """A change of a message; ``is_selected`` says whether it is to be undone."""

    change: HistoryChange
    is_selected: bool


class UndoOutcome(StrEnum):
    """What became of a change, or would become of it."""

    WOULD_BE_TAKEN_BACK = "would be taken back"
    TAKEN_BACK = "taken back"
    ALREADY_SO = "already so"
    STAYS = "stays"


class ChangeOutcome(NamedTuple):
    """What became of one change of a message; ``why`` is empty where it needs no reason."""

    change: HistoryChange
    outcome: UndoOutcome
    why: str = ""


class UndoPlan(NamedTuple):
    """The selected changes of one message that are undone, and those that cannot be; both newest first."""

    reversible: tuple[HistoryChange, ...]
    irreversible: tuple[ChangeOutcome, ...]


def plan_undo(version: str | None, changes: Sequence[UndoableChange]) -> UndoPlan:
    """Return the plan for a message whose ledger entry has ``version`` (None: it has no entry).

    ``changes`` are all changes of the message since the oldest selected one, newest first, whoever made them.
    """
    reversible: list[HistoryChange] = []
    irreversible: list[ChangeOutcome] = []
    other: HistoryChange | None = None  # the next later change that is not selected
    for undoable in changes:
        change = undoable.change
        if not undoable.is_selected:
            other = change
        elif change.version == version and (version is not None or not (other or irreversible)):
            reversible.append(change)
            version = change.former_version
        else:
            irreversible.append(ChangeOutcome(change, UndoOutcome.STAYS, _reason(version, other)))
    return UndoPlan(tuple(reversible), tuple(irreversible))


def _reason(version: str | None, other: HistoryChange | None) -> str:
    if other is not None:
        note = other.note
        who = f"{note.source} {note.actor}".rstrip()
        return f"taken back since by {note.actor}" if note.source == UNDO_SOURCE else f"changed since by {who}"
    if version is None:
        return "its ledger entry has expired"
    return "its ledger entry is not the one of the history"


class MessageUndo(NamedTuple):
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
            undoable = UndoableChange(change, change in selection)
            changes_of.setdefault(change.message_key, []).append(undoable)
    return {key: changes for key, changes in changes_of.items() if any(change.is_selected for change in changes)}


async def prepare_undo(model: Model, message_key: str, changes: Sequence[UndoableChange]) -> MessageUndo:
    """Return what the undo of these changes would do to the message now; nothing is written."""
    entry = await model.entry(message_key)
    plan = plan_undo(_entry_version(entry), changes)
    if not plan.reversible:
        return MessageUndo(message_key, plan, entry, entry)
    newest = await model.history.record(plan.reversible[0].id)
    oldest = await model.history.record(plan.reversible[-1].id)
    if newest is None or oldest is None:
        why = "no longer in the history"
        trimmed = [ChangeOutcome(change, UndoOutcome.STAYS, why) for change in plan.reversible]
        return MessageUndo(message_key, UndoPlan((), (*trimmed, *plan.irreversible)), entry, entry)
    return MessageUndo(message_key, plan, entry, oldest.former, newest.note.after, oldest.note.before)


async def apply_undo(model: Model, undo: MessageUndo, actor: str) -> bool:
    """Write the undo in the name of ``actor``; return False if somebody else changed the message since.

    Raises ``StoreUnavailable``; the same undo may then be tried again.
    """
    if not undo.changes_ledger:
        return True
    assert undo.before is not None
    assert undo.after is not None
    note = LessonNote(UNDO_SOURCE, actor, undo.before, undo.after)
    key, restored_entry = undo.message_key, undo.restored_entry
    result = await model.commit_lesson(key, undo.current_entry, restored_entry, note)
    # Somebody else who undoes the same at this moment may have restored the entry: that is a success.
    return isinstance(result, bytes) or _entry_version(result.entry) == _entry_version(restored_entry)


def _entry_version(entry: LedgerEntry | None) -> str | None:
    return entry.version if entry else None


async def undo_changes(
    model: Model,
    changes: Mapping[str, Sequence[UndoableChange]],
    report: Callable[[ChangeOutcome], object],
    actor: str | None,
) -> Counter[UndoOutcome]:
    """Undo ``changes`` (of ``selected_changes``) in the name of ``actor``, and count them by their outcome.

    Where ``actor`` is None, nothing is written: this says what an undo would do. ``report`` gets each change at
    once. Raises ``StoreUnavailable``; what was reported is done then.
    """
    counts: Counter[UndoOutcome] = Counter()
    for key, message_changes in changes.items():
        message_undo = await prepare_undo(model, key, message_changes)
        outcome, why = UndoOutcome.WOULD_BE_TAKEN_BACK, ""
        if actor is not None:
            outcome = UndoOutcome.TAKEN_BACK
            if not await apply_undo(model, message_undo, actor):
                outcome, why = UndoOutcome.STAYS, "changed by others at this very moment"
        for of_change in _change_outcomes(message_undo, outcome, why):
            counts[of_change.outcome] += 1
            report(of_change)
    return counts


def _change_outcomes(message_undo: MessageUndo, done: UndoOutcome, why: str) -> Iterator[ChangeOutcome]:
    outcome = (done, why) if message_undo.changes_ledger else (UndoOutcome.ALREADY_SO, "")
    for change in message_undo.plan.reversible:
        yield ChangeOutcome(change, *outcome)
    yield from message_undo.plan.irreversible
