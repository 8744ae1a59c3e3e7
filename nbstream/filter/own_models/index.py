"""The index of own models in Redis: which ones there are, and when each was last used.

Rules: a model is listed before its first lesson is stored, so that none is unlisted. It leaves the index last: a
removal that was interrupted is repeated by the next one.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from redis.exceptions import WatchError

from nbstream.bayes.counts import CLASSES
from nbstream.errors import StoreUnavailable
from nbstream.filter.own_models.listing import index_key, list_model, unlist_model
from nbstream.filter.own_models.store import OwnModelKeys, all_keys_pattern
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.scan import scan_keys
from nbstream.store.model.totals import StoredTotals
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Collection, Sequence

    from redis.asyncio import Redis

    from nbstream.bayes.counts import Totals

_log = logging.getLogger(__name__)

_BATCH = 500
_DAY_SECONDS = 86_400
_TOKEN_BYTES = 90  # of a name and a count in Redis; a message is its ledger entry and its record in the history
_MESSAGE_BYTES = 2_500


@dataclass(frozen=True, slots=True)
class ListedModel:
    """An own model: when it was last used (seconds since the epoch), and what it knows.

    ``bytes_stored`` is about what it takes in Redis.
    """

    name: str
    used_at: float
    totals: Totals
    bytes_stored: int


class OwnModelIndex:
    """The own models below the common model ``model``. All methods raise ``StoreUnavailable``."""

    def __init__(self, client: Redis, model: str) -> None:
        self._client = client
        self._model = model
        self._key = index_key(model)

    async def count(self) -> int:
        """Return how many there are."""
        with store_errors():
            return int(await self._client.zcard(self._key))

    async def names(self) -> list[str]:
        """Return the names of all models at one moment."""
        with store_errors():
            names: Any = await self._client.zrange(self._key, 0, -1)
        return [name.decode() for name in names]

    async def models(self) -> AsyncIterator[ListedModel]:
        """Yield all models, the one that was used last first."""
        async for found in self._listed():
            for model in await self._describe(found):
                yield model

    async def find(self, name: str) -> ListedModel | None:
        """Return the model of this name; None where there is none."""
        async for found in self._listed():
            for listed in found:
                if listed[0] == name:
                    return (await self._describe([listed]))[0]
        return None

    async def _listed(self) -> AsyncIterator[list[tuple[str, float]]]:
        """Yield the names with their last use."""
        first, found = 0, [("", 0.0)]
        while found:
            with store_errors():
                reply: Any = await self._client.zrange(
                    self._key, first, first + _BATCH - 1, desc=True, withscores=True
                )
            found = [(name.decode(), float(used_at)) for name, used_at in reply]
            first += _BATCH
            yield found

    async def _idle(self, until: float) -> list[str]:
        with store_errors():
            names: Any = await self._client.zrange(
                self._key, "-inf", str(until), byscore=True, offset=0, num=_BATCH
            )
        return [name.decode() for name in names]

    async def add(self, name: str) -> None:
        """List a model that is used now."""
        await list_model(self._client, self._key, name)

    async def remove(self, names: Collection[str]) -> None:
        """Remove models with all that they know, for every process; to do it twice changes nothing.

        Meanwhile they refuse lessons, or a count would be left without its ledger entry. Where this is interrupted
        they do so until it is repeated. All keys of Redis are looked at once, however many models there are.
        """
        keys_of = {name.encode(): OwnModelKeys(self._model, name) for name in names}
        removal = secrets.token_hex(8)
        with store_errors():
            for keys in keys_of.values():
                await self._client.set(keys.importing, removal)
            locks = {keys.importing.encode() for keys in keys_of.values()}
            async for found in scan_keys(self._client, all_keys_pattern(self._model)):
                of_model: dict[bytes, list[bytes]] = {}
                for key in found:
                    name, colon, _ = key.partition(b"}:")[2].partition(b":")
                    if colon and name in keys_of and key not in locks:
                        of_model.setdefault(name, []).append(key)
                for name, some in of_model.items():
                    await self._unlink(keys_of[name], removal, some)
            for stream in {keys.changes for keys in keys_of.values()}:
                # Whoever has a model of the bucket in memory reads a change without a predecessor, and drops it.
                async with self._client.pipeline(transaction=True) as pipe:
                    pipe.xtrim(stream, maxlen=0, approximate=False)
                    pipe.xadd(stream, {"sequence": 0})
                    await pipe.execute()
            for name, keys in keys_of.items():
                await unlist_model(self._client, self._key, name.decode())
                await self._unlink(keys, removal, [keys.importing])

    async def _unlink(self, keys: OwnModelKeys, removal: str, some: Sequence[str | bytes]) -> None:
        """Remove some keys of a model, unless another removal or an import has begun meanwhile."""
        problem = f"another removal of {keys.name}, or an import into it, has begun: this one has ended"
        try:
            pipe: Any
            async with self._client.pipeline(transaction=True) as pipe:
                await pipe.watch(keys.importing)
                if await pipe.get(keys.importing) != removal.encode():
                    raise StoreUnavailable(problem)
                pipe.multi()
                pipe.unlink(*some)
                await pipe.execute()
        except WatchError as error:
            raise StoreUnavailable(problem) from error

    async def remove_idle(self, until: float) -> int:
        """Remove the models that were not used after ``until``, and return how many there were."""
        count, names = 0, await self._idle(until)
        while names:
            stop_if_cancelled()
            await self.remove(names)
            count, names = count + len(names), await self._idle(until)
        return count

    async def remove_unused(self, days: int) -> None:
        """Remove the models that nobody has used for ``days``."""
        count = await self.remove_idle(time.time() - _DAY_SECONDS * days)
        if count:
            _log.info("removed %d own models that were not used for %d days", count, days)

    async def _describe(self, found: list[tuple[str, float]]) -> list[ListedModel]:
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                for name, _ in found:
                    keys = OwnModelKeys(self._model, name)
                    pipe.hgetall(keys.totals)
                    for label in CLASSES:
                        pipe.hlen(keys.counts(label))
                replies = await pipe.execute()
        step = len(replies) // len(found) if found else 1
        models = []
        for (name, used_at), start in zip(found, range(0, len(replies), step), strict=True):
            fields, *lengths = replies[start : start + step]
            totals = StoredTotals.of_hash(fields).people
            stored = _TOKEN_BYTES * sum(lengths) + _MESSAGE_BYTES * sum(totals.messages)
            models.append(ListedModel(name, used_at, totals, stored))
        return models
