"""The plan of an undo: which changes of a message can be undone. Nothing is written here.

Rules: pure. The changes of a message are undone newest first, and each one only if the message is still as that
change left it: the ledger entry has the version that the change wrote; or, after an unlearn, there is no entry and
nobody else has changed the message since. The message goes back to the entry that the oldest of the undone changes
replaced. Therefore one write restores it, and a plan made again after that write changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.store.model.history import UNDO_SOURCE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.store.model.history import HistoryChange


@dataclass(frozen=True, slots=True)
class UndoableChange:
    """A change of the history as a plan needs it.

    ``version_before`` and ``version_after`` are the versions of the ledger entry before and after the change, None
    if there was no entry. ``selected`` says whether the change is to be undone.
    """

    id: bytes
    at: float
    description: str
    source: str
    actor: str
    version_after: str | None
    version_before: str | None
    selected: bool

    @classmethod
    def from_history(cls, change: HistoryChange, *, selected: bool) -> UndoableChange:
        """Return a change of the history as a plan needs it."""
        return cls(
            id=change.id,
            at=change.at,
            description=change.description,
            source=change.note.source,
            actor=change.note.actor,
            version_after=change.version,
            version_before=change.former_version,
            selected=selected,
        )


@dataclass(frozen=True, slots=True)
class IrreversibleChange:
    """A selected change that cannot be undone, and the reason."""

    change: UndoableChange
    reason: str


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The selected changes of one message that are undone, and those that cannot be; both newest first."""

    reversible: tuple[UndoableChange, ...]
    irreversible: tuple[IrreversibleChange, ...]


def plan_undo(version: str | None, changes: Sequence[UndoableChange]) -> UndoPlan:
    """Return the plan for a message whose ledger entry has ``version`` (None: it has no entry).

    ``changes`` are all changes of the message since the oldest selected one, newest first, whoever made them.
    """
    reversible: list[UndoableChange] = []
    irreversible: list[IrreversibleChange] = []
    other: UndoableChange | None = None  # the next later change that is not selected
    for change in changes:
        if not change.selected:
            other = change
        elif change.version_after == version and (version is not None or not (other or irreversible)):
            reversible.append(change)
            version = change.version_before
        else:
            irreversible.append(IrreversibleChange(change, _reason(version, other)))
    return UndoPlan(tuple(reversible), tuple(irreversible))


def _reason(version: str | None, other: UndoableChange | None) -> str:
    if other is not None:
        who = f"{other.source} {other.actor}".rstrip()
        return f"taken back since by {other.actor}" if other.source == UNDO_SOURCE else f"changed since by {who}"
    if version is None:
        return "its ledger entry has expired"
    return "its ledger entry is not the one of the history"
