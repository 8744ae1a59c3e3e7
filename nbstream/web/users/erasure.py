"""The erasure of a user: their own model, what other models had from them, and what is remembered of them.

Rules: the steps are independent, and each can be done again: an erasure that was interrupted is finished by the
next one, and finds nothing the second time. What they taught is unlearned exactly: the message goes back to what
others taught, or is not learned any more. Only then the records of the history go, their own and those of others
that repeat an entry of theirs. Whoever erases looks again afterwards, by the same steps. Their quarantined
mail stays: it is mail.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.filter.undo import UndoableChange, apply_undo, prepare_undo
from nbstream.policy.feedback_source import user_of_actor
from nbstream.policy.sender_lists import list_owner
from nbstream.store.logins import USER_ROLE, read_login
from nbstream.store.model.history import UNDO_SOURCE, Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.scan import scan_keys
from nbstream.store.recent.message_rows import RowFilter, RowSearch, is_named_by_sender, normalize_address
from nbstream.store.redis_errors import readable_replies, store_errors
from nbstream.store.sender_lists import StoredSenderLists
from nbstream.web.users.digest_state import DigestMarker
from nbstream.web.users.preferences import UserPreferences

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.correspondents.store import CorrespondentStore
    from nbstream.filter.own_models.index import OwnModelIndex
    from nbstream.policy.own_models.names import OwnModelNames
    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.model.model import Model
    from nbstream.store.recent.message_rows import MessageRow, RowPosition
    from nbstream.web.users.digest_state import DigestState

_PERSONAL = ("{local}", "{address}")
_BATCH = 500
_UNKNOWN = Assessment(0.5, "unsure")  # the message is not at hand


@dataclass(frozen=True, slots=True)
class ErasureStep:
    """How much there is, or was, of one kind."""

    subject: str
    count: int


@dataclass(frozen=True, slots=True)
class UserErasure:
    """Erases users of the model ``common``, below which ``index`` lists own models, which ``open_own`` opens.

    ``names`` says whose an address is. ``actor`` is who erases.
    """

    common: Model
    index: OwnModelIndex
    open_own: Callable[[str], Model]
    names: OwnModelNames
    digests: DigestState
    actor: str
    correspondents: CorrespondentStore | None = None

    def own_model_of(self, address: str) -> str | None:
        """Return the name of the model that is of this user alone; None if they have none."""
        path, template = self.names.levels_of(address), self.names.template_of(address)
        return path[-1] if template and any(part in template for part in _PERSONAL) else None

    async def steps(self, address: str, *, erase: bool) -> AsyncIterator[ErasureStep]:
        """Yield what there is of the user of ``address``, or with ``erase`` what was erased.

        Raises ``InputError``, ``StoreIncompatible`` and ``StoreUnavailable``.
        """
        user = self.names.user_of(normalize_address(address))

        def is_theirs(text: str) -> bool:
            named = (text, user_of_actor(text), text.partition(" for ")[2])
            return any(name and self.names.user_of(normalize_address(name)) == user for name in named)

        own = self.own_model_of(user)
        for name in self.names.levels_of(user):
            listed = await self.index.find(name)
            if name == own:
                yield ErasureStep(
                    f"messages that their own model {name} has learned",
                    sum(listed.totals.messages) if listed else 0,
                )
                if erase:
                    await self.index.remove([name])
            elif listed:
                model = await self.open_own(name).open(sign=False)
                lessons, records = await _erase_lessons(model, is_theirs, self.actor, erase=erase)
                yield ErasureStep(f"messages that model {name} has learned from them", lessons)
                yield ErasureStep(f"records of them in the history of model {name}", records)
        lessons, records = await _erase_lessons(self.common, is_theirs, self.actor, erase=erase)
        yield ErasureStep("messages that the common model has learned from them", lessons)
        yield ErasureStep("records of them in its history", records)
        client, keys = self.common.client, self.common.keys
        addresses = [user, *(alias for alias, target in self.names.aliases.items() if target == user)]
        remembered = await _erase_remembered(client, keys, is_theirs, addresses, erase=erase)
        yield ErasureStep("remembered messages to them or that name them", remembered)
        yield ErasureStep("senders in their list", await self._erase_lists(addresses, erase=erase))
        yield ErasureStep("choices about the digest", await self._erase_choices(addresses, erase=erase))
        if self.correspondents:  # by their address: a login of another form is not known here
            found_sent = await self.correspondents.forget(addresses, erase=erase)
            yield ErasureStep("messages they sent that name correspondents", found_sent)
        yield ErasureStep("sessions of the self-service page", await self._erase_sessions(is_theirs, erase=erase))

    async def _erase_lists(self, addresses: list[str], *, erase: bool) -> int:
        lists, count = StoredSenderLists(self.common.client, self.common.keys), 0
        for owner in map(list_owner, addresses):
            count += len(await lists.entries(owner))
            if erase:
                await lists.forget(owner)
        return count

    async def _erase_choices(self, addresses: list[str], *, erase: bool) -> int:
        preferences, count = UserPreferences(self.common.client, self.common.keys), 0
        for address in addresses:
            count += not await preferences.wants_digest(address)
            count += self.digests.marker(address) != DigestMarker()
            if erase:
                await preferences.forget(address)
                self.digests.forget(address)
        return count

    async def _erase_sessions(self, is_theirs: Callable[[str], bool], *, erase: bool) -> int:
        client, count = self.common.client, 0
        with store_errors(), readable_replies():
            async for keys in scan_keys(client, self.common.keys.login_session("*")):
                for key, stored in zip(keys, await client.mget(keys), strict=True):
                    login = read_login(stored)
                    if login and login.role == USER_ROLE and is_theirs(login.name):
                        count += 1
                        if erase:
                            await client.unlink(key)
        return count


async def _erase_lessons(
    model: Model, is_theirs: Callable[[str], bool], actor: str, *, erase: bool
) -> tuple[int, int]:
    """Take back what the user taught to the model, and remove it from the history; without ``erase`` count it.

    Return how many lessons count, and how many records of the history there are. ``is_theirs`` says whether an
    actor is the user, and ``actor`` is who does it. Raises ``StoreIncompatible`` and ``StoreUnavailable``.
    """
    changes: dict[str, list[UndoableChange]] = {}
    async for change in model.history.changes():
        changes.setdefault(change.message_key, []).append(UndoableChange(change, is_theirs(change.note.actor)))
    lessons = 0
    for key, of_message in changes.items():
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
    return lessons + len(found), await _erase_records(model, is_theirs, erase=erase)


async def _entries_without_a_record(
    model: Model, is_theirs: Callable[[str], bool], known: dict[str, list[UndoableChange]] | None
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


async def _erase_records(model: Model, is_theirs: Callable[[str], bool], *, erase: bool) -> int:
    """Remove the records that name the user, the newest first; return how many there are."""
    count, last, key = 0, b"+", model.keys.history
    while True:
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


async def _erase_remembered(
    client: Redis, keys: ModelKeys, is_theirs: Callable[[str], bool], addresses: Sequence[str], *, erase: bool
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
        page = await search.search(RowFilter(), position, _BATCH)
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
