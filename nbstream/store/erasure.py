"""What one user has left in a model and in its memory of messages, and how it is erased.

Rules: what they taught is unlearned exactly: the message goes back to what others taught, or is not learned any
more. Only then the records of the history go, their own and those of others that repeat an entry of theirs. Each
step may be interrupted and done again, and finds nothing the second time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.history import UNDO_SOURCE, Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scan import scan_keys
from nbstream.store.recent.message_rows import is_named_by_sender
from nbstream.store.recent.row_search import Direction, RowFilter, RowSearch
from nbstream.store.redis_errors import readable_replies, store_errors
from nbstream.store.undo import UndoableChange, apply_undo, prepare_undo

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.model.model import Model
    from nbstream.store.recent.message_rows import MessageRow, RowPosition

_BATCH = 500
_UNKNOWN = Assessment(0.5, "unsure")  # the message is not at hand

IsTheirs = Callable[[str], bool]
"""Returns whether an actor, or the address of a recipient, is the user."""


@dataclass(frozen=True, slots=True)
class ErasedCounts:
    """How much there is, or was, of the user: lessons that count, and records of the history."""

    lessons: int
    records: int


async def erase_lessons(model: Model, is_theirs: IsTheirs, actor: str, *, erase: bool) -> ErasedCounts:
    """Take back what the user taught to the model, and remove it from the history; without ``erase`` count it.

    ``actor`` is who does it. Raises ``StoreIncompatible`` and ``StoreUnavailable``.
    """
    changes: dict[str, list[UndoableChange]] = {}
    async for change in model.history.changes():
        changes.setdefault(change.message_key, []).append(UndoableChange(change, is_theirs(change.note.actor)))
    lessons = 0
    for key, of_message in changes.items():
        stop_if_cancelled()
        if not any(change.is_selected for change in of_message):
            continue
        undo = await prepare_undo(model, key, of_message)
        if undo.changes_ledger:
            lessons += 1
            if erase:
                await apply_undo(model, undo, actor)
    found = await _entries_without_a_record(model, is_theirs, None if erase else changes)
    if erase:
        for key, entry in found:
            note = LessonNote(UNDO_SOURCE, actor, _UNKNOWN, _UNKNOWN)
            await model.commit_lesson(key, entry, None, note)
    return ErasedCounts(lessons + len(found), await _erase_records(model, is_theirs, erase=erase))


async def _entries_without_a_record(
    model: Model, is_theirs: IsTheirs, known: dict[str, list[UndoableChange]] | None
) -> list[tuple[str, LedgerEntry]]:
    """Return what they taught whose record is trimmed; messages ``known`` by their records are left out."""
    found = []
    start = len(model.keys.ledger(""))
    with store_errors(), readable_replies():
        async for keys in scan_keys(model.client, model.keys.ledger_pattern):
            async with model.client.pipeline(transaction=False) as pipe:
                for key in keys:
                    pipe.hget(key, "actor")
                actors = await pipe.execute()
            for key, actor in zip(keys, actors, strict=True):
                message_key = key[start:].decode()
                if actor is not None and is_theirs(actor.decode()) and message_key not in (known or {}):
                    entry = await model.entry(message_key)
                    if entry:
                        found.append((message_key, entry))
    return found


async def _erase_records(model: Model, is_theirs: IsTheirs, *, erase: bool) -> int:
    """Remove the records that name the user, the newest first; return how many there are."""
    count, last, key = 0, b"+", model.keys.history
    while True:
        stop_if_cancelled()
        with store_errors(), readable_replies():
            records: Any = await model.client.xrevrange(key, last, count=_BATCH)
            theirs = [
                record_id
                for record_id, fields in records
                if any(is_theirs(fields.get(name, b"").decode()) for name in (b"actor", b"former:actor"))
            ]
            if theirs and erase:
                await model.client.xdel(key, *theirs)
        count += len(theirs)
        if len(records) < _BATCH:
            return count
        last = b"(" + records[-1][0]


async def erase_remembered(
    client: Redis, keys: ModelKeys, is_theirs: IsTheirs, addresses: Sequence[str], *, erase: bool
) -> int:
    """Forget the checked messages to the user, and those whose rows name them; return how many there are.

    ``addresses`` are those of the user. Others who got such a message do not find it in their lists any more, for
    the days that it would have been remembered. Raises ``StoreUnavailable``.
    """
    search = RowSearch(client, keys, math.inf)  # rows may be from a time when they were remembered for longer
    named = re.compile(rf"(?<![\w.+=-])(?:{'|'.join(map(re.escape, addresses))})(?![\w-]|\.\w)", re.IGNORECASE)

    def is_about_user(row: MessageRow) -> bool:
        if row.outcome and is_theirs(row.outcome.actor):
            return True
        if row.envelope is None:
            return False
        sender = row.envelope.sender or ""
        texts = row.envelope.subject or "", row.envelope.header_from or ""
        return (
            any(map(is_theirs, (sender, *row.envelope.recipients)))
            or any(is_named_by_sender(address, sender) for address in addresses)
            or any(map(named.search, texts))
        )

    position: RowPosition | None = None
    count = 0
    while True:
        stop_if_cancelled()
        page = await search.search(RowFilter(), position, Direction.OLDER, _BATCH)
        for row in filter(is_about_user, page.rows):
            count += 1
            if erase:
                with store_errors():
                    async with client.pipeline(transaction=True) as pipe:
                        pipe.unlink(keys.checked(row.id), keys.row(row.id))
                        for key in (keys.recent, *map(keys.rows_to, row.indices)):
                            pipe.zrem(key, row.id)
                        await pipe.execute()
        position = page.next_position
        if position is None:
            return count
