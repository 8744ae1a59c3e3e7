"""The import of archives into models in Redis that are empty: each is there as a whole, or not at all.

Rules. All records are staged under separate keys first, so that a cut or damaged file changes nothing. Then a
script for each model makes what is staged its content, if it is still empty: the ledger entries in bounded steps,
and after them everything that messages are scored by in one. Meanwhile these models refuse lessons: the script
that learns looks at the key ``importing``, which expires and is renewed as long as the import lives. So an import
that is killed while it stages refuses lessons for a minute at most, and the next one removes what it has staged.
One that is killed among its ledger entries refuses them until the next one has removed these as well.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import CLASSES
from nbstream.bayes.kinds import label_of
from nbstream.errors import NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.lua import lua_script
from nbstream.store.model.keys import MAX_CHANGES
from nbstream.store.redis_errors import store_errors
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from nbstream.store.model.keys import StagedKeys
    from nbstream.store.model.model import Model
    from nbstream.store.transfer.archive import ArchiveReader, ArchiveRecord

_LEASE_SECONDS = 60  # an import that gives no sign of life for that long has been killed
_RENEWAL_SECONDS = 10
_ENTRIES_PER_STEP = 500
_NEVER = -1  # the milliseconds until a key expires that does not
_GO_ON = 2  # what the script answers where it is to be called again
_TOOK_TOO_LONG = "the import took too long, and lessons may be learned again: nothing was imported into that model"
_NAMES_IN_ERRORS = 10


class ModelImport:
    """The import into one model.

    Call ``begin``, ``stage`` for each record, ``stage_prequential_scores`` and ``commit``; after all ``abandon``.
    All of them raise ``StoreUnavailable``.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.is_committed = False
        self._import_id = secrets.token_hex(8)
        self._staged_keys = model.keys.staged(self._import_id)
        self._last_change = (0, 0)
        self._is_committing = False

    async def begin(self) -> None:
        """Refuse lessons from now on, and remove what a killed import has staged.

        Raises ``StoreIncompatible`` for a model that is not empty.
        """
        client, keys = self.model.client, self.model.keys
        with store_errors():
            is_first = await client.set(keys.importing, self._import_id, nx=True, ex=_LEASE_SECONDS)
            if not is_first and not await self._has_moved_entries():
                raise StoreUnavailable("another import into this model is under way, or was killed a minute ago")
            if not is_first:  # from here on the other one, if it lives, moves no more
                await client.set(keys.importing, self._import_id)
            killed: Any = await client.get(keys.staging)
            if killed:
                await self._remove_staged(killed.decode(), with_moved=not is_first)
            await client.set(keys.staging, self._import_id)
            await client.expire(keys.importing, _LEASE_SECONDS)
            if await client.exists(keys.totals, *map(keys.counts, CLASSES)):
                raise self._not_empty_error()

    async def renew(self) -> None:
        """Go on to refuse lessons; raise ``StoreUnavailable`` where they were let in meanwhile."""
        if self._is_committing:
            return
        client, key = self.model.client, self.model.keys.importing
        with store_errors():
            if await client.get(key) != self._import_id.encode():
                raise StoreUnavailable(_TOOK_TOO_LONG)
            await client.expire(key, _LEASE_SECONDS)

    async def stage(self, record: ArchiveRecord) -> None:
        """Stage one record."""
        with store_errors():
            async with self.model.client.pipeline(transaction=False) as pipe:
                match record:
                    case CountsRecord(column, counts):
                        pipe.sadd(self._staged_keys.columns, column)
                        _stage_counts(pipe, self._staged_keys.counts(column), counts)
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
        pipe.zadd(self._staged_keys.entry_ids, {record.message_key: 0})
        pipe.hset(key, mapping=dict(record.fields))
        if record.milliseconds >= 0:
            pipe.pexpire(key, max(1, record.milliseconds))

    async def commit(self, on_step: Callable[[], Awaitable[None]]) -> None:
        """Make what is staged the content of the model, in bounded steps, and let lessons in again.

        Raises ``StoreIncompatible`` where the model is not empty any more: nothing is changed then.
        """
        self._is_committing = True
        model, keys, staged = self.model, self.model.keys, self._staged_keys
        await model.open()
        least_change = "-".join(map(str, self._last_change)) if self._last_change > (0, 0) else "*"
        moved = [
            (staged.totals, keys.totals),
            *[(staged.counts(column), keys.counts(column)) for column in await self._staged_columns(staged)],
            *zip(staged.prequential_scores, keys.prequential_scores, strict=True),
        ]
        script = model.client.register_script(lua_script("commit_import.lua"))
        script_keys = [keys.importing, keys.staging, keys.sequence, keys.changes, staged.entry_ids, staged.columns]
        script_keys += [key for pair in moved for key in pair]
        arguments: list[str | int] = [
            self._import_id,
            least_change,
            MAX_CHANGES,
            staged.ledger(""),
            keys.ledger(""),
        ]
        answer: Any = _GO_ON
        for start in count(0, _ENTRIES_PER_STEP):
            await on_step()
            with store_errors():
                answer = await script(keys=script_keys, args=[*arguments, start, _ENTRIES_PER_STEP])
            if answer != _GO_ON:
                break
        if answer == 0:
            raise StoreUnavailable(_TOOK_TOO_LONG)
        if answer < 0:
            raise self._not_empty_error()
        self.is_committed = True

    async def stage_prequential_scores(self, on_step: Callable[[], Awaitable[None]]) -> None:
        """Stage the prequential scores of the staged entries, the newest of each class, in bounded steps."""
        client, staged = self.model.client, self._staged_keys
        with store_errors():
            for start in range(0, await client.zcard(staged.entry_ids), _ENTRIES_PER_STEP):
                await on_step()
                ids: Any = await client.zrange(staged.entry_ids, start, start + _ENTRIES_PER_STEP - 1)
                async with client.pipeline(transaction=False) as pipe:
                    for message_key in ids:
                        pipe.hmget(staged.ledger(message_key.decode()), "label", "first")
                    found = await pipe.execute()
                    for label, prequential_score in found:
                        if label and prequential_score:
                            key = staged.prequential_scores[CLASSES.index(label_of(label.decode()))]
                            pipe.zadd(key, {prequential_score: prequential_score.split()[0]})
                    await pipe.execute()
            for key in staged.prequential_scores:
                await client.zremrangebyrank(key, 0, -self.model.retention.max_prequential_scores - 1)

    async def abandon(self) -> None:
        """Remove what is staged and let lessons in again, unless the import is committed."""
        if self.is_committed:
            return
        client, keys = self.model.client, self.model.keys
        with store_errors():
            is_ours = await client.mget(keys.importing, keys.staging) == [self._import_id.encode()] * 2
            await self._remove_staged(self._import_id, with_moved=is_ours and await self._has_moved_entries())
            if is_ours:
                await client.delete(keys.staging, keys.importing)

    async def _has_moved_entries(self) -> bool:
        """Whether the import that is under way has moved ledger entries, and may be in the middle of them."""
        return await self.model.client.pttl(self.model.keys.importing) == _NEVER

    async def _remove_staged(self, import_id: str, *, with_moved: bool) -> None:
        """Remove what an import has staged, and moved, in bounded steps, without a look at all keys of Redis."""
        client: Any = self.model.client
        staged = self.model.keys.staged(import_id)
        while ids := await client.zrange(staged.entry_ids, 0, _ENTRIES_PER_STEP - 1):
            of = (staged, self.model.keys) if with_moved else (staged,)
            await client.unlink(*(keys.ledger(message_key.decode()) for message_key in ids for keys in of))
            await client.zremrangebyrank(staged.entry_ids, 0, len(ids) - 1)
        counts = [staged.counts(column) for column in await self._staged_columns(staged)]
        await client.unlink(staged.totals, staged.columns, *counts, *staged.prequential_scores)

    async def _staged_columns(self, staged: StagedKeys) -> Sequence[str]:
        with store_errors():
            columns: Any = await self.model.client.smembers(staged.columns)
        return sorted(column.decode() for column in columns)

    def _not_empty_error(self) -> StoreIncompatible:
        keys = self.model.keys
        return StoreIncompatible(
            f"model {keys.model!r} is not empty (the {keys.log_name}), and nothing was imported into it: "
            "set model.name to a new name"
        )


async def import_archive(
    reader: ArchiveReader,
    open_model: Callable[[str], Awaitable[Model]],
    on_staged: Callable[[ArchiveRecord], object] | None = None,
    before_commit: Callable[[Model], Awaitable[object]] | None = None,
) -> None:
    """Import all models of a file; after an error before the last moment none of them is changed.

    Each model is imported as a whole or not at all; where some are and some are not, the error says which.
    ``open_model`` returns the open model for a name in the file, and ``on_staged`` is called with each record,
    and ``before_commit`` with each model once the whole file was read.
    Raises ``InputError`` and ``StoreIncompatible`` for the file, and the errors of ``ModelImport``.
    """
    imports: list[ModelImport] = []
    renewed_at = time.monotonic()

    async def keep_renewed(seconds: float = _RENEWAL_SECONDS) -> None:
        nonlocal renewed_at
        stop_if_cancelled()
        if time.monotonic() - renewed_at >= seconds:
            renewed_at = time.monotonic()
            for each in imports:
                await each.renew()

    try:
        while not imports or reader.next_model():
            model = await open_model(reader.header.model)
            imports.append(ModelImport(model))
            await imports[-1].begin()
            for record in reader:
                await keep_renewed()
                await imports[-1].stage(record)
                if on_staged:
                    on_staged(record)
        for each in imports:
            await each.stage_prequential_scores(keep_renewed)
        await keep_renewed(0)
        await _commit_all(imports, keep_renewed, before_commit)
    finally:
        for each in imports:
            with suppress(StoreUnavailable):  # the next import removes it
                await each.abandon()


async def _commit_all(
    imports: list[ModelImport],
    on_step: Callable[[], Awaitable[None]],
    before_commit: Callable[[Model], Awaitable[object]] | None,
) -> None:
    """Commit the imports; the error says which models are there then, which are not, and at which one it ended."""
    try:
        for each in reversed(imports):  # whoever repeats it after a kill comes to the model in the middle first
            if before_commit:
                await before_commit(each.model)
            await each.commit(on_step)
    except (NbstreamError, asyncio.CancelledError) as error:
        done = [each.model.keys.log_name for each in imports if each.is_committed]
        if not done:
            raise
        doubtful, *others = [each.model.keys.log_name for each in reversed(imports) if not each.is_committed]
        kind, text = (
            (type(error), error) if isinstance(error, NbstreamError) else (StoreUnavailable, "interrupted")
        )
        text = f"{text}. Imported as a whole: {_listed(done)}. Perhaps imported, if no answer came: {doubtful}"
        raise kind(f"{text}. Not imported: {_listed(others)}" if others else text) from error


def _listed(names: list[str]) -> str:
    others = len(names) - _NAMES_IN_ERRORS
    return ", ".join(names[:_NAMES_IN_ERRORS]) + (f" and {others} others" if others > 0 else "")


def _stage_counts(pipe: Any, key: str, counts: Mapping[bytes, int]) -> None:
    """Stage counts; they replace earlier ones of the same names, and a count of 0 deletes one."""
    present = {name: count for name, count in counts.items() if count}
    if present:
        pipe.hset(key, mapping=present)
    if zero := [name for name, count in counts.items() if not count]:
        pipe.hdel(key, *zero)
