"""Records of an archive added to a model in Redis: all of them, once, or none.

Rules. First everything is staged under keys of its own, so a file that turns out to be cut or damaged changes
nothing. Then one step marks what is staged as ready. From there on it is moved into the model by bounded steps,
each of which adds and unstages at once; a step that is repeated finds nothing to move. An import that was killed
after the mark is therefore finished by ``finish_import``, whoever calls it and how often. Others may learn
meanwhile: all of it is addition, without clamping, so the order does not matter.

A message that the model knows already keeps the entry that it has there. What the file's counts hold of it is
taken back (its own tokens, weight and sums, by the script that unlearns), so that each message is counted once, as
what the model's ledger says. Entries come last: until then what is to be taken back has been added, and nothing
that mirrors see is below zero. Mirrors are shown one gap in the numbers of changes, at the end, and scan anew.
"""

from __future__ import annotations

import secrets
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from redis.exceptions import WatchError

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.model import former_version
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.keys import IMPORT_READY, StagedLedgerKeys
from nbstream.store.model.model import MAX_CHANGES, Model, lua_script, store_errors
from nbstream.store.model.time_base import HALF_LIFE_FIELD, pack_half_life
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import StagedKeys
    from nbstream.store.transfer.archive import ArchiveRecord

_STAGING_SECONDS = 60  # an import that shows no sign of life for so long has been killed
_ENTRIES_PER_STEP = 500  # of a million tokens the slowest step of 1000 took 7 ms of Redis, the average one 1.5
_SCAN_COUNT = 500
_IMPORT_NOTE = LessonNote("import", "", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))
"""Stands in a history that is thrown away: the model's own is not told of imports."""


class ModelImport:
    """One import into ``model``; ``merge`` allows one that is not empty."""

    def __init__(self, model: Model, *, merge: bool) -> None:
        self._model = model
        self._merge = merge
        self._import_id = secrets.token_hex(8)
        self._staged_keys = model.keys.staged(self._import_id)
        self._last_change = (0, 0)

    async def begin(self) -> None:
        """Make sure that nobody else imports, and remove what a killed import has staged.

        Raises ``StoreUnavailable`` or, where ``merge`` would have to be allowed, ``StoreIncompatible``.
        """
        client, keys = self._model.client, self._model.keys
        with store_errors():
            if not await client.set(keys.importing, self._set_state("staging"), nx=True, ex=_STAGING_SECONDS):
                raise StoreUnavailable("another import into this model is under way, or was killed a minute ago")
            await _remove_keys(client, keys.staged_pattern)
            if not self._merge and await _has_learned(client, self._model):
                raise _not_empty_error(keys.model)

    async def stage(self, record: ArchiveRecord) -> None:
        """Keep one record for ``ready``."""
        with store_errors():
            async with self._model.client.pipeline(transaction=False) as pipe:
                pipe.expire(self._model.keys.importing, _STAGING_SECONDS)
                match record:
                    case CountsRecord(label, counts):
                        _stage_counts(pipe, self._staged_keys.counts[CLASSES.index(label)], counts)
                    case LedgerRecord():
                        self._stage_entry(pipe, record)
                    case TotalsRecord(fields):
                        _stage_counts(pipe, self._staged_keys.totals, fields)
                await pipe.execute()

    def _stage_entry(self, pipe: Any, kept: LedgerRecord) -> None:
        key = self._staged_keys.ledger(kept.message_key)
        pipe.delete(key)
        if not kept.fields:
            return
        milliseconds, _, number = kept.fields[b"change"].partition(b"-")
        self._last_change = max(self._last_change, (int(milliseconds), int(number)))
        pipe.hset(key, mapping=dict(kept.fields))
        if kept.milliseconds >= 0:
            pipe.pexpire(key, max(1, kept.milliseconds))

    async def mark_ready(self, migrated: str = "") -> None:
        """What is staged is whole: from here on it is part of the model, and ``finish_import`` moves it there.

        ``migrated`` is what the archive says of a migration of its model; see ``former_version``.

        Raises as ``begin`` does, and nothing is changed then.
        """
        client, keys = self._model.client, self._model.keys
        half_life = self._model.half_life  # what is staged is counted in it
        await self._model.open(like=half_life)
        with store_errors():
            async with client.pipeline(transaction=True) as pipe:
                emptiness = [] if self._merge else [keys.totals, *keys.counts]
                await pipe.watch(keys.importing, keys.schema, *emptiness)
                if await pipe.get(keys.importing) != self._set_state("staging"):
                    raise StoreUnavailable("the import took too long, and another one has begun")
                found: Any = await pipe.hget(keys.schema, HALF_LIFE_FIELD)
                if (found or b"").decode() != pack_half_life(half_life):
                    raise _model_changed_error()
                if not self._merge and await _has_learned(pipe, self._model):
                    raise _not_empty_error(keys.model)
                pipe.multi()  # type: ignore[no-untyped-call]  # redis-py has no type here
                if migrated:
                    pipe.hset(keys.schema, former_version.FIELD, migrated)
                pipe.set(keys.importing, self._set_state(IMPORT_READY.decode()) + b" %d-%d" % self._last_change)
                try:
                    await pipe.execute()
                except WatchError as error:
                    raise _model_changed_error() from error

    async def abandon(self) -> None:
        """Remove what was staged, unless it is ready."""
        client, keys = self._model.client, self._model.keys
        with store_errors():
            if await client.get(keys.importing) == self._set_state("staging"):
                await client.delete(keys.importing)
                await _remove_keys(client, self._staged_keys.pattern)

    def _set_state(self, state: str) -> bytes:
        return f"{state} {self._import_id}".encode()


async def finish_import(model: Model, moved: Callable[[int], object] | None = None) -> int | None:
    """Move what an import has made ready into the model; ``moved`` is told of the records as they go.

    Returns of how many messages the model's own entry was kept, or None where no import is ready.
    """
    with store_errors():
        mark: Any = await model.client.get(model.keys.importing) or b""
    if not mark.startswith(IMPORT_READY):
        return None
    _, draw, change = mark.split()
    staged = model.keys.staged(draw.decode())
    moved = moved or (lambda _: None)
    await _move_counts(model, staged, moved)
    known = await _move_entries(model, staged, moved)
    with store_errors():
        await _remove_keys(model.client, staged.pattern)
        for key in model.keys.first_scores:
            await model.client.zremrangebyrank(key, 0, -model.retention.max_first_scores - 1)
        await model.client.register_script(lua_script("imported.lua"))(
            keys=[model.keys.sequence, model.keys.changes, model.keys.importing],
            args=[change if change != b"0-0" else b"*", MAX_CHANGES, mark],
        )
    return known


async def _move_counts(model: Model, staged: StagedKeys, moved: Callable[[int], object]) -> None:
    merge = model.client.register_script(lua_script("merge.lua"))
    keys = [staged.totals, model.keys.totals, *staged.counts, *model.keys.counts]
    with store_errors():
        await merge(keys=keys)
        for column in staged.counts:
            async for names in _hash_fields(model.client, column):
                for first in range(0, len(names), _ENTRIES_PER_STEP):
                    await merge(keys=keys, args=names[first : first + _ENTRIES_PER_STEP])
                moved(len(names))


async def _hash_fields(client: Redis, key: str) -> AsyncIterator[list[bytes]]:
    """The names of a hash's fields, all that are there from first to last; those read may be deleted meanwhile."""
    cursor = None
    while cursor != 0:
        reply: Any = await client.hscan(key, cursor or 0, count=_ENTRIES_PER_STEP)
        cursor, found = reply
        yield list(found)


async def _move_entries(model: Model, staged: StagedKeys, moved: Callable[[int], object]) -> int:
    """Put the staged entries into the ledger, and take back those of messages that it holds already."""
    taker = Model(model.client, model.keys.model, ledger_seconds=0)
    taker.keys = StagedLedgerKeys(model.keys.model, staged)
    start = len(staged.ledger(""))
    known = 0
    async for found in _scan_keys(model.client, staged.ledger("*")):
        message_keys = [key[start:].decode() for key in found]
        for message_key in await _already_in_ledger(model, staged, message_keys):
            entry = await taker.entry(message_key)
            if entry:
                await taker.commit_lesson(message_key, entry, None, _IMPORT_NOTE)
            known += 1
        moved(len(found))
    return known


async def _already_in_ledger(model: Model, staged: StagedKeys, message_keys: list[str]) -> list[str]:
    """Those of the messages whose entries could not be put into the ledger, as it holds one."""
    adopt = model.client.register_script(lua_script("adopt.lua"))
    first_scores = dict(zip(CLASSES, model.keys.first_scores, strict=True))
    with store_errors():
        async with model.client.pipeline(transaction=False) as pipe:
            for message_key in message_keys:
                pipe.hmget(staged.ledger(message_key), "label", "first")
            found = await pipe.execute()
            for message_key, (label, first) in zip(message_keys, found, strict=True):
                scores = first_scores[label.decode() if label else CLASSES[0]]  # None: there is none any more
                keys = [staged.ledger(message_key), model.keys.ledger(message_key), scores]
                await adopt(keys=keys, args=[first or b""], client=pipe)
            adopted = await pipe.execute()
    return [message_key for message_key, done in zip(message_keys, adopted, strict=True) if done == 0]


async def _scan_keys(client: Redis, pattern: str) -> AsyncIterator[list[bytes]]:
    cursor = None
    while cursor != 0:
        with store_errors():
            reply: Any = await client.scan(cursor or 0, match=pattern, count=_SCAN_COUNT)
        cursor, found = reply
        if found:
            yield found


async def _remove_keys(client: Redis, pattern: str) -> None:
    async for found in _scan_keys(client, pattern):
        with store_errors():
            await client.unlink(*found)


async def _has_learned(client: Any, model: Model) -> bool:
    """Whether the model has learned anything; ``client`` may be a pipeline that watches."""
    return bool(await client.exists(model.keys.totals, *model.keys.counts))


def _model_changed_error() -> StoreUnavailable:
    return StoreUnavailable("the model was changed at this moment: try again")


def _not_empty_error(name: str) -> StoreIncompatible:
    return StoreIncompatible(
        f"model {name!r} is not empty, and nothing was imported: "
        "add to it with --merge, or set model.name to a new name"
    )


def _stage_counts(pipe: Any, key: str, counts: Mapping[bytes, int]) -> None:
    """Later counts replace earlier ones, and a count of 0 is none."""
    kept = {name: count for name, count in counts.items() if count}
    if kept:
        pipe.hset(key, mapping=kept)
    if gone := [name for name, count in counts.items() if not count]:
        pipe.hdel(key, *gone)
