"""The export of a model: its records as of one moment, read from Redis while others learn.

Rules: bounded steps (HSCAN, SCAN), never the whole model in memory.

Why the result is of one moment: first the position in the change stream is noted, then counts and ledger are
scanned, each part at some later moment. At the end a script, which sees changes, ledger and totals of one moment,
reads what changed after the noted position, until nothing is left. A scanned count differs from the count at that
last moment only if a change after the noted position contains the token; the resulting counts of that change are a
later record. A scanned ledger entry differs only if such a change names the message; then its entry is read anew
and is a later record. Later records replace earlier ones. Entries that expire meanwhile change no count.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING

from nbstream.bayes.counts import NO_CHANGE
from nbstream.errors import StoreUnavailable
from nbstream.store.connection import ServerGuard
from nbstream.store.lua import lua_script
from nbstream.store.model.model import ModelPosition
from nbstream.store.model.scan import scan_hash, scan_keys
from nbstream.store.model.scripts import changed_counts, is_of_model, lesson_count, read_totals
from nbstream.store.model.signature import current_signature
from nbstream.store.redis_errors import store_errors
from nbstream.store.transfer import archive

if TYPE_CHECKING:
    from nbstream.store.model.model import Model

_LEDGER_BATCH = 500  # keys of one SCAN; their entries are read in one round trip, 1 to 2 MB
# Some ms of Redis; reading is faster than learning over the same connection, so it comes to an end.
_CHANGES_BATCH = 10  # of 64 lessons each they are 2 MB


class ModelSnapshot:
    """One export of an open model: call ``header`` first, then ``records`` once.

    ``learned_meanwhile`` is the number of lessons and evictions during the export.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._changed_script = model.client.register_script(lua_script("changes_since.lua"))
        self._position = ModelPosition(NO_CHANGE, *read_totals({}))
        self._guard = ServerGuard(model.client)
        self.learned_meanwhile = 0

    async def header(self, name: str = archive.COMMON, following: int = 0) -> archive.ArchiveHeader:
        """Return the header of the archive, and note the position in the change stream.

        ``name`` is the model's in the file, and ``following`` says how many models come after it.
        """
        self._guard = ServerGuard(self._model.client)
        self._position = await self._model.position()
        return archive.ArchiveHeader(current_signature(self._model.key_fingerprint), name, following)

    @property
    def _columns(self) -> Sequence[str]:
        return self._position.people.columns + self._position.automatic.columns

    async def records(self) -> AsyncIterator[archive.ArchiveRecord]:
        """Yield all records; raises ``StoreUnavailable``, also if the change stream was trimmed meanwhile."""
        async for counts in self._count_records():
            yield counts
        async for entry in self._ledger_records():
            if entry.fields.get(b"label", b"").decode() in self._columns:  # else it counts for nothing
                yield entry
        async for record in self._change_records():
            yield record

    async def _count_records(self) -> AsyncIterator[archive.CountsRecord]:
        for column in self._columns:
            with store_errors():
                async for counts in scan_hash(self._model.client, self._model.keys.counts(column), self._guard):
                    yield archive.CountsRecord(column, {name: int(count) for name, count in counts.items()})

    async def _ledger_records(self) -> AsyncIterator[archive.LedgerRecord]:
        client, keys = self._model.client, self._model.keys
        start = len(keys.ledger(""))
        with store_errors():
            async for ledger_keys in scan_keys(client, keys.ledger("*"), _LEDGER_BATCH):
                async with client.pipeline(transaction=False) as pipe:
                    for key in ledger_keys:
                        pipe.pttl(key)
                        pipe.hgetall(key)
                    replies = await pipe.execute()
                for key, milliseconds, fields in zip(ledger_keys, replies[0::2], replies[1::2], strict=True):
                    if fields:
                        yield archive.LedgerRecord(key[start:].decode(), fields, milliseconds)

    async def _change_records(self) -> AsyncIterator[archive.ArchiveRecord]:
        """Yield what was learned since the noted position, and then the totals."""
        keys = self._model.keys
        change, sequence = self._position.change.stream_id, self._position.change.sequence
        while True:
            with store_errors():
                changes, entries, totals = await self._changed_script(
                    keys=[keys.changes, keys.totals], args=[change, _CHANGES_BATCH, keys.ledger("")]
                )
            for change, pairs in changes:  # noqa: B007 - the next call of the script begins after the last change
                fields = _hash_from_pairs(pairs)
                lessons = lesson_count(fields)
                sequence += lessons
                if fields.get(b"sequence") != b"%d" % sequence:
                    raise StoreUnavailable("the model was changed too much meanwhile: try again")
                if not is_of_model(fields, keys.name_in_changes):
                    continue
                self.learned_meanwhile += lessons
                names, columns = changed_counts(fields)
                for column, counts in columns:
                    yield archive.CountsRecord(column, dict(zip(names, counts.tolist(), strict=True)))
            for message_key, milliseconds, pairs in entries:
                yield archive.LedgerRecord(message_key.decode(), _hash_from_pairs(pairs), milliseconds)
            self._guard.check()
            if len(changes) < _CHANGES_BATCH:
                yield archive.TotalsRecord({name: int(value) for name, value in _hash_from_pairs(totals).items()})
                return


def _hash_from_pairs(pairs: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return a hash from names and values in turn, the form in which Lua returns it."""
    return dict(zip(pairs[0::2], pairs[1::2], strict=True))
