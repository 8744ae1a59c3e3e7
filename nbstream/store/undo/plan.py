"""Which changes of a message can be taken back, and to what: planned before anything is written.

Rules: pure. A message's changes are taken back newest first, each only where the message is still as it left it:
the ledger's entry has the version that the change wrote, or there is none after an unlearn and nobody else came
since. What the message then goes back to is the entry that the oldest of them replaced, so one write restores it,
and a plan made again after that write changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.store.model.history import HistoryRecord

UNDO_SOURCE = "undo"
"""The source under which a restoration is in the history itself."""


@dataclass(frozen=True, slots=True)
class UndoableChange:
    """What planning needs to know of a record: no tokens, so that all there are fit in memory.

    ``wrote`` and ``former`` are the versions of the entry that it left and of the one that was there before, None
    for none; ``selected`` says whether it is to be taken back.
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
    def from_record(cls, record: HistoryRecord, *, chosen: bool) -> UndoableChange:
        """The change of a record."""
        note, former = record.note, record.former.version if record.former else None
        return cls(
            record.id, record.at, record.description, note.source, note.actor, record.version, former, chosen
        )


@dataclass(frozen=True, slots=True)
class IrreversibleChange:
    """A chosen change that cannot be taken back, and why."""

    change: UndoableChange
    reason: str


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """What happens to one message: the chosen changes that are taken back and those that are not, newest first."""

    reversible: tuple[UndoableChange, ...]
    irreversible: tuple[IrreversibleChange, ...]


def plan_undo(live: str | None, changes: Sequence[UndoableChange]) -> UndoPlan:
    """The plan for a message whose ledger entry has the version ``live`` (None: there is none).

    ``changes`` are all since the oldest chosen one, newest first, by whomever.
    """
    taken: list[UndoableChange] = []
    kept: list[IrreversibleChange] = []
    other: UndoableChange | None = None  # the change by others that came next
    for change in changes:
        if not change.selected:
            other = change
        elif change.version_after == live and (live is not None or not (other or kept)):
            taken.append(change)
            live = change.version_before
        else:
            kept.append(IrreversibleChange(change, _refusal_reason(live, other)))
    return UndoPlan(tuple(taken), tuple(kept))


def _refusal_reason(live: str | None, other: UndoableChange | None) -> str:
    if other is not None:
        who = f"{other.source} {other.actor}".rstrip()
        return f"taken back since by {other.actor}" if other.source == UNDO_SOURCE else f"changed since by {who}"
    return "its ledger entry has expired" if live is None else "its ledger entry is not the one of the history"
