"""What the script of a lesson is given, and what it answers (``learn.lua``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.store.model import history, ledger

if TYPE_CHECKING:
    from nbstream.store.model.history import Note
    from nbstream.store.model.keys import Keys


@dataclass(frozen=True, slots=True)
class Kept:
    """About how many changes and records of the history stay, how many first scores, and an entry's seconds."""

    changes: int
    history: int
    first_scores: int
    ledger_seconds: int


@dataclass(frozen=True, slots=True)
class Replacement:
    """One message's ledger entry ``old`` is to give way to ``new``, None for none; the note is for the history."""

    message_key: str
    old: ledger.Entry | None
    new: ledger.Entry | None
    note: Note


def named(keys: Keys, message_key: str) -> list[str]:
    """The keys that the script is given, in its order."""
    first = [keys.ledger(message_key), keys.totals, keys.changes, keys.sequence, keys.history]
    return [*first, *keys.counts, *keys.first_scores]


def arguments(change: Replacement, kept: Kept) -> list[str | bytes | int]:
    """The arguments of the script, in its order."""
    old, new = change.old, change.new
    noted = history.fields(new, change.note)
    fields = [item for pair in new.pack().items() for item in pair] if new else []
    return [
        old.version if old else "",
        *_side(old),
        *_side(new),
        kept.changes,
        kept.ledger_seconds,
        kept.history,
        kept.first_scores,
        old.first if old else b"",
        new.first if new else b"",
        len(noted),
        *noted,
        *fields,
    ]


def answered(reply: bytes | list[bytes]) -> bytes | ledger.Held:
    """The stream id of the change, or what the ledger holds instead."""
    if isinstance(reply, bytes):
        return reply
    return ledger.Held(ledger.Entry.unpack(dict(zip(reply[0::2], reply[1::2], strict=True))))


def _side(entry: ledger.Entry | None) -> tuple[int, int, bytes, bytes]:
    """Column (1 is the first class, 0 none), weight, tokens and sums of one side of a change."""
    if entry is None:
        return 0, 0, b"", b""
    column = CLASSES.index(entry.label) + 1
    return column, entry.weight, ledger.join(entry.tokens), ledger.join_sums(entry.sums)
