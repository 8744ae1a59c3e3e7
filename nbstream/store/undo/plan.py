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

    from nbstream.store.model.history import Record

SOURCE = "undo"
"""The source under which a restoration is in the history itself."""


@dataclass(frozen=True, slots=True)
class Change:
    """What planning needs to know of a record: no tokens, so that all there are fit in memory.

    ``wrote`` and ``former`` are the versions of the entry that it left and of the one that was there before, None
    for none; ``chosen`` says whether it is to be taken back.
    """

    id: bytes
    at: float
    what: str
    source: str
    actor: str
    wrote: str | None
    former: str | None
    chosen: bool

    @classmethod
    def of(cls, record: Record, *, chosen: bool) -> Change:
        """The change of a record."""
        note, former = record.note, record.former.version if record.former else None
        return cls(record.id, record.at, record.what, note.source, note.actor, record.version, former, chosen)


@dataclass(frozen=True, slots=True)
class Kept:
    """A chosen change that cannot be taken back, and why."""

    change: Change
    why: str


@dataclass(frozen=True, slots=True)
class Plan:
    """What happens to one message: the chosen changes that are taken back and those that are not, newest first."""

    taken: tuple[Change, ...]
    kept: tuple[Kept, ...]


def plan(live: str | None, changes: Sequence[Change]) -> Plan:
    """The plan for a message whose ledger entry has the version ``live`` (None: there is none).

    ``changes`` are all since the oldest chosen one, newest first, by whomever.
    """
    taken: list[Change] = []
    kept: list[Kept] = []
    other: Change | None = None  # the change by others that came next
    for change in changes:
        if not change.chosen:
            other = change
        elif change.wrote == live and (live is not None or not (other or kept)):
            taken.append(change)
            live = change.former
        else:
            kept.append(Kept(change, _why(live, other)))
    return Plan(tuple(taken), tuple(kept))


def _why(live: str | None, other: Change | None) -> str:
    if other is not None:
        who = f"{other.source} {other.actor}".rstrip()
        return f"taken back since by {other.actor}" if other.source == SOURCE else f"changed since by {who}"
    return "its ledger entry has expired" if live is None else "its ledger entry is not the one of the history"
