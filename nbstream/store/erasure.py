"""What one user has left in a model and in its memory of messages, and how it is erased.

Rules: what he taught is unlearned exactly: the message goes back to what others taught, or is not learned any
more. Only then the records of the history go, his own and those of others that repeat an entry of his. Each step
may be interrupted and done again, and finds nothing the second time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.history import UNDO_SOURCE, Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scan import scan_keys
from nbstream.store.recent.message_rows import is_named_by_sender, recipient_indices
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

IsHis = Callable[[str], bool]
"""Returns whether an actor, or the address of a recipient, is the user."""


@dataclass(frozen=True, slots=True)
class Found:
    """How much there is, or was, of the user: lessons that count, and records of the history."""

    lessons: int
    records: int


async def erase_lessons(model: Model, is_his: IsHis, actor: str, *, erase: bool) -> Found:
    """Take back what the user taught to the model, and remove it from the history; without ``erase`` count it.

    ``actor`` is who does it. Raises ``StoreIncompatible`` and ``StoreUnavailable``.
    """
    changes: dict[str, list[UndoableChange]] = {}
    async for change in model.history.changes():
        changes.setdefault(change.message_key, []).append(UndoableChange(change, is_his(change.note.actor)))
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
    found = await _entries_without_a_record(model, is_his, None if erase else changes)
    if erase:
        for key, entry in found:
            note = LessonNote(UNDO_SOURCE, actor, _UNKNOWN, _UNKNOWN)
            await model.commit_lesson(key, entry, None, note)
    return Found(lessons + len(found), await _erase_records(model, is_his, erase=erase))


async def _entries_without_a_record(
    model: Model, is_his: IsHis, known: dict[str, list[UndoableChange]] | None
) -> list[tuple[str, LedgerEntry]]:
    """Return what he taught whose record is trimmed; messages that are ``known`` by their records are left out."""
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
                if actor is not None and is_his(actor.decode()) and message_key not in (known or {}):
                    entry = await model.entry(message_key)
                    if entry:
                        found.append((message_key, entry))
    return found


async def _erase_records(model: Model, is_his: IsHis, *, erase: bool) -> int:
    """Remove the records that name the user, the newest first; return how many there are."""
    count, last, key = 0, b"+", model.keys.history
    while True:
        stop_if_cancelled()
        with store_errors(), readable_replies():
            records: Any = await model.client.xrevrange(key, last, count=_BATCH)
            his = [
                record_id
                for record_id, fields in records
                if any(is_his(fields.get(name, b"").decode()) for name in (b"actor", b"former:actor"))
            ]
            if his and erase:
                await model.client.xdel(key, *his)
        count += len(his)
        if len(records) < _BATCH:
            return count
        last = b"(" + records[-1][0]


@dataclass(frozen=True, slots=True)
class UserTexts:
    """How the texts of rows name the user: ``is_his`` says it of an actor or an address.

    ``user_of`` returns the address of the user behind a recipient, and ``addresses`` are those of this user.
    """

    is_his: IsHis
    user_of: Callable[[str], str]
    addresses: Sequence[str]

    def without(self, row: MessageRow) -> MessageRow:
        """Return what is left of a row without the user."""
        if row.outcome and self.is_his(row.outcome.actor):
            row = replace(row, outcome=replace(row.outcome, actor=""))
        if row.envelope is None:
            return row
        recipients, sender, subject = row.envelope.recipients, row.envelope.sender, row.envelope.subject
        named = re.compile(
            rf"(?<![\w.+=-])(?:{'|'.join(map(re.escape, self.addresses))})(?![\w-]|\.\w)", re.IGNORECASE
        )
        his = list(filter(self.is_his, recipients))
        others = tuple(address for address in recipients if address not in his)
        if sender and (self.is_his(sender) or any(is_named_by_sender(address, sender) for address in his)):
            sender = None
        if subject:
            subject = named.sub("…", subject)
        header_from = row.envelope.header_from
        if header_from and (named.search(header_from) or any(is_named_by_sender(one, header_from) for one in his)):
            header_from = None  # with the name beside the address
        count = row.envelope.recipient_count - len(his)
        envelope = replace(
            row.envelope,
            sender=sender,
            subject=subject,
            recipients=others,
            recipient_count=count,
            header_from=header_from,
        )
        dropped = {*recipient_indices(his, self.user_of)} - {*recipient_indices(others, self.user_of)}
        indices = tuple(name for name in row.indices if name not in dropped)
        return replace(row, envelope=envelope, indices=indices)


async def erase_remembered(client: Redis, keys: ModelKeys, texts: UserTexts, *, erase: bool) -> Found:
    """Forget the checked messages to the user alone, and what names the user in the rows of all others.

    Returns the number of the former as ``lessons`` that can be taught no more, and of the latter as ``records``.
    Raises ``StoreUnavailable``.
    """
    search = RowSearch(client, keys, math.inf)  # rows may be from a time when they were remembered for longer
    position: RowPosition | None = None
    alone = shared = 0
    while True:
        stop_if_cancelled()
        page = await search.search(RowFilter(), position, Direction.OLDER, _BATCH)
        for row in page.rows:
            left = texts.without(row)
            if left == row:
                continue
            is_alone = _recipient_count(left) == 0 < _recipient_count(row)
            alone, shared = alone + is_alone, shared + (not is_alone)
            if erase:
                await _erase_row(client, keys, row, None if is_alone else left)
        position = page.next_position
        if position is None:
            return Found(alone, shared)


def _recipient_count(row: MessageRow) -> int:
    return row.envelope.recipient_count if row.envelope else 0


async def _erase_row(client: Redis, keys: ModelKeys, row: MessageRow, left: MessageRow | None) -> None:
    with store_errors():
        async with client.pipeline(transaction=True) as pipe:
            for name in set(row.indices) - set(left.indices if left else ()):
                pipe.zrem(keys.rows_to(name), row.id)
            if left:
                pipe.set(keys.row(row.id), left.pack(), keepttl=True, xx=True)
            else:
                pipe.unlink(keys.checked(row.id), keys.row(row.id))
                pipe.zrem(keys.recent, row.id)
                pipe.zrem(keys.rows, row.id)
            await pipe.execute()
