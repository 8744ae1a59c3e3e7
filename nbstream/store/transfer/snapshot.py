"""A model read from Redis record by record, as of one moment, while others learn.

Rules: bounded steps (HSCAN, SCAN), never the whole model in memory. Why the result is of one moment: the places in
the change stream and in the history are noted first, then counts and ledger are scanned, each as it is at some
later moment. Then what changed after the noted places is read, by a script that sees changes, ledger and totals of
one moment, until it has nothing more to tell. A token's count differs from its count at that last moment only if a
change after the noted place touched it, and that change's resulting counts are a later record; a message's entry
differs only if the history, which the same script writes, names the message, and then its entry is read anew and
is a later record. Later records replace earlier ones. Entries that expire meanwhile change no count.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import CLASSES, Totals
from nbstream.errors import StoreUnavailable
from nbstream.store.model import former_version
from nbstream.store.model.keys import IMPORT_READY
from nbstream.store.model.model import ModelPosition, lua_script, store_errors
from nbstream.store.model.scan import SCAN_STEP
from nbstream.store.model.signature import current_signature
from nbstream.store.transfer import archive

if TYPE_CHECKING:
    from nbstream.store.model.model import Model

_LEDGER_BATCH = 500  # keys a SCAN; what they hold is read in one go, 1 to 2 MB
_CHANGES_BATCH = 100  # a script of 1 ms; faster than anybody learns over the same way, so it comes to an end


class ModelSnapshot:
    """One reading of a model that is open. First ``header``, then ``records`` once.

    ``clock`` gives the seconds since the epoch.
    """

    def __init__(self, model: Model, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._model = model
        self._changed_script = model.client.register_script(lua_script("changed.lua"))
        self._position = ModelPosition(b"0-0", 0, b"0-0", Totals())
        self.learned_meanwhile = 0

    async def header(self) -> archive.ArchiveHeader:
        """What the file begins with; also notes the place."""
        self._position = await self._model.position()
        with store_errors():
            lengths: Any = [await self._model.client.hlen(key) for key in self._model.keys.counts]
            migrated: Any = await self._model.client.hget(self._model.keys.schema, former_version.FIELD)
        records = sum(lengths) + sum(self._position.totals.messages)
        return archive.new_header(
            current_signature(), records, self._model.half_life, float(self._clock()), (migrated or b"").decode()
        )

    async def records(self) -> AsyncIterator[archive.ArchiveRecord]:
        """All there is. Raises ``StoreUnavailable``, also where the change stream was trimmed meanwhile."""
        async for column in self._count_records():
            yield column
        async for kept in self._ledger_records():
            yield kept
        async for record in self._change_records():
            yield record

    async def _count_records(self) -> AsyncIterator[archive.CountsRecord]:
        for label, key in zip(CLASSES, self._model.keys.counts, strict=True):
            cursor = None
            while cursor != 0:
                with store_errors():
                    reply: Any = await self._model.client.hscan(key, cursor or 0, count=SCAN_STEP)
                cursor, found = reply
                if found:
                    yield archive.CountsRecord(label, {name: int(count) for name, count in found.items()})

    async def _ledger_records(self) -> AsyncIterator[archive.LedgerRecord]:
        client, keys = self._model.client, self._model.keys
        start = len(keys.ledger(""))
        cursor = None
        while cursor != 0:
            with store_errors():
                reply: Any = await client.scan(cursor or 0, match=keys.ledger("*"), count=_LEDGER_BATCH)
                cursor, found = reply
                async with client.pipeline(transaction=False) as pipe:
                    for key in found:
                        pipe.pttl(key)
                        pipe.hgetall(key)
                    replies = await pipe.execute() if found else []
            for key, milliseconds, fields in zip(found, replies[0::2], replies[1::2], strict=True):
                if fields:
                    yield archive.LedgerRecord(key[start:].decode(), fields, milliseconds)

    async def _change_records(self) -> AsyncIterator[archive.ArchiveRecord]:
        """What was learned since the place that was noted, then the totals."""
        keys = self._model.keys
        change, sequence, record = self._position.change, self._position.sequence, self._position.record
        while True:
            with store_errors():
                changes, record, entries, totals, importing = await self._changed_script(
                    keys=[keys.changes, keys.history, keys.totals, keys.importing],
                    args=[change, record, _CHANGES_BATCH, keys.ledger("")],
                )
            if importing.startswith(IMPORT_READY):
                raise StoreUnavailable("an import into this model is not finished: run nbstream import again")
            for change, fields in changes:  # noqa: B007 - the last one is where it goes on
                found = _hash_from_pairs(fields)
                sequence += 1
                if found.get(b"sequence") != b"%d" % sequence:
                    raise StoreUnavailable("the model was changed too much meanwhile: try again")
                for column in _change_counts(found):
                    yield column
            for message_key, milliseconds, fields in entries:
                yield archive.LedgerRecord(message_key.decode(), _hash_from_pairs(fields), milliseconds)
            self.learned_meanwhile += len(changes)
            if len(changes) < _CHANGES_BATCH and len(entries) < _CHANGES_BATCH:
                yield archive.TotalsRecord({name: int(value) for name, value in _hash_from_pairs(totals).items()})
                return


def _change_counts(change: Mapping[bytes, bytes]) -> list[archive.CountsRecord]:
    """The resulting counts of a change."""
    tokens = change[b"tokens"].split(b"\n") if change[b"tokens"] else []
    found = ((label, change.get(b"counts:" + label.encode())) for label in CLASSES)
    return [
        archive.CountsRecord(label, dict(zip(tokens, map(int, counts.split()), strict=True)))
        for label, counts in found
        if counts
    ]


def _hash_from_pairs(flat: Sequence[bytes]) -> dict[bytes, bytes]:
    """Names and values in turn, as Lua gives a hash."""
    return dict(zip(flat[0::2], flat[1::2], strict=True))
