"""The import of archives into models in Redis that are empty: each is there as a whole, or not at all.

Rules. The key ``importing`` refuses lessons from the first record on until the model is whole. Everything but the
totals is written in its place, in bounded steps, each of which is refused where another import has begun
meanwhile; the totals come last, with a change that makes everybody read the model anew. So until then nothing was
learned for whoever looks, and no verdict comes of half a model. A set in Redis names all keys that were written.
An import that fails removes them. One that was killed refuses lessons until the next one has done that.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from nbstream.bayes.columns import CLASSES, automatic_columns, label_of
from nbstream.errors import NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.store.lua import lua_script
from nbstream.store.model.keys import MAX_CHANGES
from nbstream.store.model.scan import change_while_held, remove_keys
from nbstream.store.redis_errors import store_errors
from nbstream.store.transfer.archive import CountsRecord, LedgerRecord, TotalsRecord

if TYPE_CHECKING:
    from nbstream.store.model.model import Model
    from nbstream.store.transfer.archive import ArchiveReader, ArchiveRecord

_STEP = 2000  # counts that are written at once: a few ms of Redis
_ENTRY_SIZE = 10  # a ledger entry takes as long as so many counts
_KEYS_PER_STEP = 500


class ModelImport:
    """The import into one model: ``begin``, ``write``, ``commit``, and after all ``abandon``.

    All of them raise ``StoreUnavailable``.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.is_committed = False
        self._import_id = secrets.token_hex(8)
        self._totals: dict[bytes, int] = {}
        self._last_change = (0, 0)

    async def begin(self) -> None:
        """Refuse lessons from now on, and remove what an import that was killed has written.

        Raises ``StoreIncompatible`` for a model that is not empty.
        """
        client, keys = self.model.client, self.model.keys
        with store_errors():
            people, automatic = await self.model.stored_totals()
            if not any(people.messages + automatic.messages):  # else no lesson is refused
                await client.set(keys.importing, self._import_id)
                await self._remove_written()
                people, automatic = await self.model.stored_totals()
            columns = people.columns + automatic.columns
            if any(people.messages + automatic.messages) or await client.exists(*map(keys.counts, columns)):
                raise StoreIncompatible(
                    f"model {keys.model!r} is not empty (the {keys.log_name}), and nothing was imported into it: "
                    "set model.name to a new name"
                )
            if automatic.columns != automatic_columns(0):  # former generations have entries that count for nothing
                await remove_keys(client, keys.ledger_pattern)

    async def write(self, records: Iterable[ArchiveRecord]) -> None:
        """Write some records; a later one about the same token or message replaces an earlier one."""
        keys = self.model.keys

        def fill(pipe: Any) -> None:
            for record in records:
                match record:
                    case CountsRecord(column, counts):
                        pipe.sadd(keys.imported, keys.counts(column))
                        if present := {name: count for name, count in counts.items() if count}:
                            pipe.hset(keys.counts(column), mapping=present)
                        if zero := [name for name, count in counts.items() if not count]:
                            pipe.hdel(keys.counts(column), *zero)
                    case LedgerRecord():
                        self._fill_entry(pipe, record)
                    case TotalsRecord(fields):
                        self._totals.update(fields)

        await self._step(fill)

    def _fill_entry(self, pipe: Any, record: LedgerRecord) -> None:
        keys, key = self.model.keys, self.model.keys.ledger(record.message_key)
        pipe.delete(key)
        if not record.fields:
            return
        milliseconds, _, number = record.fields[b"change"].partition(b"-")
        self._last_change = max(self._last_change, (int(milliseconds), int(number)))
        pipe.sadd(keys.imported, key)
        pipe.hset(key, mapping=dict(record.fields))
        if record.milliseconds >= 0:
            pipe.pexpire(key, max(1, record.milliseconds))

    async def write_prequential_scores(self) -> None:
        """Write the prequential scores of the ledger entries, the newest of each class."""
        client, keys = self.model.client, self.model.keys
        cursor: int | None = None
        while cursor != 0:
            with store_errors():
                reply: Any = await client.sscan(keys.imported, cursor or 0, f"{keys.ledger('')}*", _KEYS_PER_STEP)
                cursor, found = reply
                async with client.pipeline(transaction=False) as pipe:
                    for key in found:
                        pipe.hmget(key, "label", "first")
                    scores = [score for score in await pipe.execute() if all(score)]
            await self._step(partial(self._fill_scores, scores))

    def _fill_scores(self, scores: Sequence[tuple[bytes, bytes]], pipe: Any) -> None:
        keys = self.model.keys.prequential_scores
        pipe.sadd(self.model.keys.imported, *keys)
        for label, packed in scores:
            pipe.zadd(keys[CLASSES.index(label_of(label.decode()))], {packed: packed.split()[0]})
        for key in keys:
            pipe.zremrangebyrank(key, 0, -self.model.retention.max_prequential_scores - 1)

    async def commit(self) -> None:
        """Make what was written the content of the model, and let lessons in again."""
        keys = self.model.keys
        await self.model.open()
        script = self.model.client.register_script(lua_script("commit_import.lua"))
        least_change = "-".join(map(str, self._last_change)) if self._last_change > (0, 0) else "*"
        totals = [item for name, value in self._totals.items() if value for item in (name, value)]
        with store_errors():
            is_ours = await script(
                keys=[keys.importing, keys.imported, keys.sequence, keys.changes, keys.totals],
                args=[self._import_id, least_change, MAX_CHANGES, *totals],
            )
        if not is_ours:
            raise self._lost_error()
        self.is_committed = True

    async def abandon(self) -> None:
        """Remove what was written and let lessons in again, unless the import is committed."""
        if not self.is_committed:
            await self._remove_written()
            await self._step(lambda pipe: pipe.delete(self.model.keys.importing))

    async def _remove_written(self) -> None:
        client, key = self.model.client, self.model.keys.imported
        with store_errors():
            while names := await client.srandmember(key, _KEYS_PER_STEP):
                await self._step(partial(_fill_removal, key, names))

    async def _step(self, fill: Callable[[Any], object]) -> None:
        """Do what ``fill`` writes into a transaction, unless another import has begun meanwhile."""
        with store_errors():
            is_ours = await change_while_held(self.model.client, self.model.keys.importing, self._import_id, fill)
        if not is_ours:
            raise self._lost_error()

    def _lost_error(self) -> StoreUnavailable:
        return StoreUnavailable("another import into this model has begun: this one has ended without it")


def _fill_removal(key: str, names: Any, pipe: Any) -> None:
    pipe.unlink(*names)
    pipe.srem(key, *names)


async def import_archive(
    reader: ArchiveReader,
    open_model: Callable[[str], Awaitable[Model]],
    on_record: Callable[[ArchiveRecord], object] | None = None,
    before_commit: Callable[[Model], Awaitable[object]] | None = None,
) -> None:
    """Import all models of a file; after an error before the last moment none of them is changed.

    Each model is imported as a whole or not at all; where some are and some are not, the error says which.
    ``open_model`` returns the open model for a name in the file, and ``on_record`` is called with each record,
    and ``before_commit`` with each model once the whole file was read.
    Raises ``InputError`` and ``StoreIncompatible`` for the file, and the errors of ``ModelImport``.
    """
    imports: list[ModelImport] = []
    try:
        while not imports or reader.next_model():
            imports.append(ModelImport(await open_model(reader.header.model)))
            await imports[-1].begin()
            records: list[ArchiveRecord] = []
            size = 0
            for record in reader:
                records.append(record)
                size += len(record.counts) if isinstance(record, CountsRecord) else _ENTRY_SIZE
                if size >= _STEP:
                    await imports[-1].write(records)
                    records, size = [], 0
                if on_record:
                    on_record(record)
            await imports[-1].write(records)
            await imports[-1].write_prequential_scores()
        await _commit_all(imports, before_commit)
    finally:
        for each in imports:
            with suppress(StoreUnavailable):  # the next import removes it
                await each.abandon()


async def _commit_all(
    imports: list[ModelImport], before_commit: Callable[[Model], Awaitable[object]] | None
) -> None:
    """Commit the imports; the error says which models are there then."""
    try:
        for each in reversed(imports):  # who repeats it after a kill begins with those that are not there yet
            if before_commit:
                await before_commit(each.model)
            await each.commit()
    except (NbstreamError, asyncio.CancelledError) as error:
        done = [each.model.keys.log_name for each in imports if each.is_committed]
        if not done:
            raise
        kind, text = (
            (type(error), error) if isinstance(error, NbstreamError) else (StoreUnavailable, "interrupted")
        )
        rest = "Of the others nothing was imported, or the next one as a whole if no answer came"
        raise kind(f"{text}. Imported as a whole: {', '.join(done)}. {rest}") from error
