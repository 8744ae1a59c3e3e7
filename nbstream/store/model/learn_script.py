"""What the script of a lesson is given, and what it answers (``learn.lua``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.store.model import history, ledger

if TYPE_CHECKING:
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.keys import ModelKeys


@dataclass(frozen=True, slots=True)
class RetentionLimits:
    """About how many changes and records of the history stay, how many first scores, and an entry's seconds."""

    max_changes: int
    max_history_records: int
    max_first_scores: int
    ledger_seconds: int


@dataclass(frozen=True, slots=True)
class LessonCommit:
    """One message's ledger entry ``old`` is to give way to ``new``, None for none; the note is for the history."""

    message_key: str
    old: ledger.LedgerEntry | None
    new: ledger.LedgerEntry | None
    note: LessonNote


def script_keys(keys: ModelKeys, message_key: str) -> list[str]:
    """The keys that the script is given, in its order."""
    first = [keys.ledger(message_key), keys.totals, keys.changes, keys.sequence, keys.history]
    return [*first, *keys.counts, *keys.first_scores]


def script_arguments(change: LessonCommit, kept: RetentionLimits) -> list[str | bytes | int]:
    """The arguments of the script, in its order."""
    old, new = change.old, change.new
    noted = history.history_fields(new, change.note)
    fields = [item for pair in new.pack().items() for item in pair] if new else []
    return [
        old.version if old else "",
        *_side_arguments(old),
        *_side_arguments(new),
        kept.max_changes,
        kept.ledger_seconds,
        kept.max_history_records,
        kept.max_first_scores,
        old.first_score if old else b"",
        new.first_score if new else b"",
        len(noted),
        *noted,
        *fields,
    ]


def read_script_reply(reply: bytes | list[bytes]) -> bytes | ledger.LedgerConflict:
    """The stream id of the change, or what the ledger holds instead."""
    if isinstance(reply, bytes):
        return reply
    return ledger.LedgerConflict(ledger.LedgerEntry.unpack(dict(zip(reply[0::2], reply[1::2], strict=True))))


def _side_arguments(entry: ledger.LedgerEntry | None) -> tuple[int, int, bytes, bytes]:
    """Column (1 is the first class, 0 none), weight, tokens and sums of one side of a change."""
    if entry is None:
        return 0, 0, b"", b""
    column = CLASSES.index(entry.label) + 1
    return column, entry.weight, ledger.join_tokens(entry.tokens), ledger.join_sums(entry.sums)
