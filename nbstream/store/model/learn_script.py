"""The keys and arguments of the script that commits a lesson (``learn.lua``), and its reply."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.store.model import history, ledger

if TYPE_CHECKING:
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.model.retention import RetentionLimits


ScriptArguments: TypeAlias = "list[str | bytes | int]"
"""The arguments of the script for one lesson."""


@dataclass(frozen=True, slots=True)
class LessonCommit:
    """One lesson: the message's ledger entry ``old`` is replaced by ``new``; None stands for no entry.

    ``note`` goes into the history. ``attempt`` identifies this commit there if it removes an entry; a new entry
    has its version.
    """

    message_key: str
    old: ledger.LedgerEntry | None
    new: ledger.LedgerEntry | None
    note: LessonNote
    attempt: str = field(default_factory=lambda: secrets.token_hex(8), compare=False)


class LearnScriptKeys(NamedTuple):
    """The keys that ``learn.lua`` unpacks by name, in its order; the keys of the classes follow them."""

    entry_key: str
    totals_key: str
    changes_key: str
    sequence_key: str
    history_key: str


class LearnScriptArguments(NamedTuple):
    """The arguments that ``learn.lua`` unpacks by name, in its order; the script says what each of them means.

    The fields of the history's record and those of the new ledger entry follow them.
    """

    expected_version: str
    old_column: int
    old_weight: int
    old_tokens: bytes
    old_sums: bytes
    old_first_score: bytes
    new_column: int
    new_weight: int
    new_tokens: bytes
    new_sums: bytes
    new_first_score: bytes
    max_changes: int
    max_history_records: int
    max_first_scores: int
    ledger_seconds: int
    class_count: int
    history_length: int
    entry_length: int


def pack_keys(keys: ModelKeys, message_key: str) -> list[str]:
    """The keys of the script for a lesson of that message."""
    named = LearnScriptKeys(
        entry_key=keys.ledger(message_key),
        totals_key=keys.totals,
        changes_key=keys.changes,
        sequence_key=keys.sequence,
        history_key=keys.history,
    )
    return [*named, *keys.counts, *keys.first_scores]


def pack_arguments(lesson: LessonCommit, limits: RetentionLimits) -> ScriptArguments:
    """The arguments of the script for that lesson."""
    old, new = lesson.old, lesson.new
    history_fields = history.history_fields(new, lesson.note, lesson.attempt)
    entry_fields = [item for field in new.pack().items() for item in field] if new else []
    named = LearnScriptArguments(
        expected_version=old.version if old else "",
        old_column=_column(old),
        old_weight=old.weight if old else 0,
        old_tokens=ledger.join_tokens(old.tokens) if old else b"",
        old_sums=ledger.join_sums(old.sums) if old else b"",
        old_first_score=old.first_score if old else b"",
        new_column=_column(new),
        new_weight=new.weight if new else 0,
        new_tokens=ledger.join_tokens(new.tokens) if new else b"",
        new_sums=ledger.join_sums(new.sums) if new else b"",
        new_first_score=new.first_score if new else b"",
        max_changes=limits.max_changes,
        max_history_records=limits.max_history_records,
        max_first_scores=limits.max_first_scores,
        ledger_seconds=limits.ledger_seconds,
        class_count=len(CLASSES),
        history_length=len(history_fields),
        entry_length=len(entry_fields),
    )
    return [*named, *history_fields, *entry_fields]


def note_and_entry_fields(arguments: ScriptArguments) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The names and values of the history's record, and those of the new ledger entry, among the arguments."""
    named = len(LearnScriptArguments._fields)
    history_length = arguments[LearnScriptArguments._fields.index("history_length")]
    assert isinstance(history_length, int)
    fields = tuple(value if isinstance(value, bytes) else str(value).encode() for value in arguments[named:])
    return fields[:history_length], fields[history_length:]


def unpack_reply(reply: bytes | list[bytes]) -> bytes | ledger.LedgerConflict:
    """The stream id of the change, or what the ledger holds instead of the expected entry.

    Raises ``StoreIncompatible`` where that entry cannot be read, and ``StoreUnavailable`` for what is no reply of
    the script: it is not known then whether the lesson was taken, and nothing odd gets into the journal.
    """
    if isinstance(reply, bytes) and history.is_stream_id(reply):
        return reply
    if not isinstance(reply, list) or len(reply) % 2:
        raise StoreUnavailable("Redis: the answer to a lesson cannot be read")
    return ledger.LedgerConflict(ledger.LedgerEntry.unpack(dict(zip(reply[0::2], reply[1::2], strict=True))))


def _column(entry: ledger.LedgerEntry | None) -> int:
    """The class of an entry as a column of the script: 1 is the first class, 0 stands for no entry."""
    return 0 if entry is None else CLASSES.index(entry.label) + 1
