"""The import of an archive into a model in Redis: all of its records are added once, or none.

Rules. First everything is staged under separate keys, so that a cut or damaged file changes nothing. Then one step
marks the staged records as ready. After that, bounded steps move them into the model; each step adds to the model
and removes from the staging keys at once, so a repeated step has nothing to move. Therefore ``finish_import``
finishes an import that was killed after the mark, whoever calls it and how often. Others may learn meanwhile: all
of it is addition, without clamping, so the order does not matter.

If the model's ledger already has an entry of a message, that entry stays. What the archive's counts contain of the
message is subtracted again (the tokens, weight and sums of the archive's entry, by the script that unlearns), so
that each message is counted once, as the model's ledger says. Ledger entries come last: by then everything that is
subtracted has been added, and mirrors see no count below zero. At the end mirrors see one gap in the numbers of
changes, and scan the counts anew.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import WatchError

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreIncompatible, StoreUnavailable
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import ServerGuard
from nbstream.store.lua import lua_script
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.keys import IMPORT_READY, MAX_CHANGES, StagedLedgerKeys
from nbstream.store.model.model import Model
from nbstream.store.model.scan import remove_keys, scan_hash, scan_keys
from nbstream.store.redis_errors import store_errors
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from nbstream.store.model.keys import StagedKeys
    from nbstream.store.transfer.archive import ArchiveReader, ArchiveRecord

_STAGING_SECONDS = 60  # an import that gives no sign of life for that long has been killed
_ENTRIES_PER_STEP = (
    500  # with 1000 of a million tokens the slowest step took 7 ms of Redis, the average one 1.5 ms
)
_IMPORT_NOTE = LessonNote("import", "", Assessment(0.5, "unsure"), Assessment(0.5, "unsure"))
"""Goes to a staged history that is deleted: an import leaves no records in the history of the model."""


class ModelImport:
    """One import into ``model``; with ``merge`` the model need not be empty.

    Call ``begin``, ``stage`` for each record, ``mark_ready``, and then ``finish_import``.
    """

    def __init__(self, model: Model, *, merge: bool) -> None:
        self._model = model
        self._merge = merge
        self._import_id = secrets.token_hex(8)
        self._staged_keys = model.keys.staged(self._import_id)
        self._last_change = (0, 0)

    async def begin(self) -> None:
        """Make sure that nobody else imports, and remove what a killed import has staged.

        Raises ``StoreUnavailable``, and ``StoreIncompatible`` for a model that is not empty if ``merge`` is not
        set.
        """
        client, keys = self._model.client, self._model.keys
        with store_errors():
            if not await client.set(keys.importing, self._set_state("staging"), nx=True, ex=_STAGING_SECONDS):
                raise StoreUnavailable("another import into this model is under way, or was killed a minute ago")
            await remove_keys(client, keys.staged_pattern)
            if not self._merge and await _has_learned(client, self._model):
                raise _not_empty_error(keys.model)

    async def stage(self, record: ArchiveRecord) -> None:
        """Stage one record; ``StoreUnavailable`` is raised if Redis fails."""
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

    def _stage_entry(self, pipe: Any, record: LedgerRecord) -> None:
        key = self._staged_keys.ledger(record.message_key)
        pipe.delete(key)
        if not record.fields:
            return
        milliseconds, _, number = record.fields[b"change"].partition(b"-")
        self._last_change = max(self._last_change, (int(milliseconds), int(number)))
        pipe.hset(key, mapping=dict(record.fields))
        if record.milliseconds >= 0:
            pipe.pexpire(key, max(1, record.milliseconds))

    async def mark_ready(self) -> None:
        """Mark the staged records as complete: this is the commit, after which ``finish_import`` moves them.

        Raises the errors of ``begin``; nothing is changed then.
        """
        client, keys = self._model.client, self._model.keys
        await self._model.open()
        with store_errors():
            async with client.pipeline(transaction=True) as pipe:
                empty_keys = [] if self._merge else [keys.totals, *keys.counts]
                await pipe.watch(keys.importing, *empty_keys)
                if await pipe.get(keys.importing) != self._set_state("staging"):
                    raise StoreUnavailable("the import took too long, and another one has begun")
                if not self._merge and await _has_learned(pipe, self._model):
                    raise _not_empty_error(keys.model)
                pipe.multi()  # type: ignore[no-untyped-call]  # redis-py has no type here
                pipe.set(keys.importing, self._set_state(IMPORT_READY.decode()) + b" %d-%d" % self._last_change)
                try:
                    await pipe.execute()
                except WatchError as error:
                    raise _model_changed_error() from error

    async def abandon(self) -> None:
        """Remove the staged records, unless they are marked as ready."""
        client, keys = self._model.client, self._model.keys
        with store_errors():
            if await client.get(keys.importing) == self._set_state("staging"):
                await client.delete(keys.importing)
                await remove_keys(client, self._staged_keys.pattern)

    def _set_state(self, state: str) -> bytes:
        return f"{state} {self._import_id}".encode()


async def import_archive(
    model: Model, reader: ArchiveReader, *, merge: bool, on_staged: Callable[[ArchiveRecord], object] | None = None
) -> None:
    """Stage all records of an archive, and mark them as ready for ``finish_import``; after an error none is left.

    ``on_staged`` is called with each record. Raises ``InputError`` and ``StoreIncompatible`` for the archive, and
    the errors of ``ModelImport``.
    """
    model_import = ModelImport(model, merge=merge)
    try:
        await model_import.begin()
        for record in reader:
            stop_if_cancelled()
            await model_import.stage(record)
            if on_staged:
                on_staged(record)
        await model_import.mark_ready()
    finally:
        with suppress(StoreUnavailable):  # the next import removes it
            await model_import.abandon()


async def finish_import(model: Model, on_moved: Callable[[int], object] | None = None) -> int | None:
    """Move the records of an import that is marked as ready into the model.

    ``on_moved`` is called with the number of records that a step has moved. Returns the number of messages that
    the model's ledger already had, or None if no import is ready. Raises ``StoreUnavailable``.
    """
    with store_errors():
        state: Any = await model.client.get(model.keys.importing) or b""
    if not state.startswith(IMPORT_READY):
        return None
    _, import_id, change = state.split()
    staged = model.keys.staged(import_id.decode())
    on_moved = on_moved or (lambda _: None)
    await _move_counts(model, staged, on_moved)
    already_learned = await _move_entries(model, staged, on_moved)
    with store_errors():
        await remove_keys(model.client, staged.pattern)
        for key in model.keys.first_scores:
            await model.client.zremrangebyrank(key, 0, -model.retention.max_first_scores - 1)
        await model.client.register_script(lua_script("finish_import.lua"))(
            keys=[model.keys.sequence, model.keys.changes, model.keys.importing],
            args=[change if change != b"0-0" else b"*", MAX_CHANGES, state],
        )
    return already_learned


async def _move_counts(model: Model, staged: StagedKeys, on_moved: Callable[[int], object]) -> None:
    merge = model.client.register_script(lua_script("merge_counts.lua"))
    keys = [staged.totals, model.keys.totals, *staged.counts, *model.keys.counts]
    with store_errors():
        await merge(keys=keys)
        for column in staged.counts:
            async for fields in scan_hash(model.client, column, ServerGuard(model.client), _ENTRIES_PER_STEP):
                names = list(fields)
                for first in range(0, len(names), _ENTRIES_PER_STEP):
                    await merge(keys=keys, args=names[first : first + _ENTRIES_PER_STEP])
                on_moved(len(names))


async def _move_entries(model: Model, staged: StagedKeys, on_moved: Callable[[int], object]) -> int:
    """Move the staged entries into the ledger, and unlearn those of messages that it already has.

    Returns the number of the latter.
    """
    staged_model = Model(model.client, StagedLedgerKeys(model.keys.model, staged), ledger_seconds=0)
    start = len(staged.ledger(""))
    already_learned = 0
    with store_errors():
        async for staged_keys in scan_keys(model.client, staged.ledger("*")):
            message_keys = [key[start:].decode() for key in staged_keys]
            for message_key in await _already_in_ledger(model, staged, message_keys):
                entry = await staged_model.entry(message_key)
                if entry:
                    await staged_model.commit_lesson(message_key, entry, None, _IMPORT_NOTE)
                already_learned += 1
            on_moved(len(staged_keys))
    return already_learned


async def _already_in_ledger(model: Model, staged: StagedKeys, message_keys: list[str]) -> list[str]:
    """Move the entries of these messages into the ledger; return the messages of which the ledger has an entry."""
    adopt = model.client.register_script(lua_script("adopt_entry.lua"))
    first_scores = dict(zip(CLASSES, model.keys.first_scores, strict=True))
    with store_errors():
        async with model.client.pipeline(transaction=False) as pipe:
            for message_key in message_keys:
                pipe.hmget(staged.ledger(message_key), "label", "first")
            staged_fields = await pipe.execute()
            for message_key, (label, first_score) in zip(message_keys, staged_fields, strict=True):
                scores_key = first_scores[label.decode() if label else CLASSES[0]]  # None: the entry has expired
                keys = [staged.ledger(message_key), model.keys.ledger(message_key), scores_key]
                await adopt(keys=keys, args=[first_score or b""], client=pipe)
            adopted = await pipe.execute()
    return [message_key for message_key, moved in zip(message_keys, adopted, strict=True) if moved == 0]


async def _has_learned(client: Any, model: Model) -> bool:
    """Return whether the model has learned anything; ``client`` may be a pipeline that watches keys."""
    return bool(await client.exists(model.keys.totals, *model.keys.counts))


def _model_changed_error() -> StoreUnavailable:
    return StoreUnavailable("the model was changed at this moment: try again")


def _not_empty_error(name: str) -> StoreIncompatible:
    return StoreIncompatible(
        f"model {name!r} is not empty, and nothing was imported: "
        "add to it with --merge, or set model.name to a new name"
    )


def _stage_counts(pipe: Any, key: str, counts: Mapping[bytes, int]) -> None:
    """Stage counts; they replace earlier ones of the same names, and a count of 0 deletes one."""
    present = {name: count for name, count in counts.items() if count}
    if present:
        pipe.hset(key, mapping=present)
    if zero := [name for name, count in counts.items() if not count]:
        pipe.hdel(key, *zero)
