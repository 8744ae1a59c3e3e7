"""The index of own models in Redis: which ones there are, and when each was last used.

Rules: a model is listed before its first lesson is stored, so that none is unlisted. It leaves the index last: a
removal that was interrupted is repeated by the next one.
"""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

from nbstream.bayes.counts import NO_CHANGE
from nbstream.errors import StoreUnavailable
from nbstream.policy.own_models.names import bucket_of
from nbstream.store.connection import client_of
from nbstream.store.follower.follower import Followed, position_of
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.scan import change_while_held, scan_keys
from nbstream.store.model.scripts import read_totals
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Collection, Iterable, Sequence

    from redis.asyncio import Redis

    from nbstream.bayes.counts import Totals
    from nbstream.store.follower.follower import StreamEntries
    from nbstream.store.model.keys import ModelKeys


@dataclass(frozen=True, slots=True)
class BucketKeys(ModelKeys):
    """The keys that the own models of one bucket below ``model`` share."""

    bucket: int

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}/{self.bucket}}}:{name}"


@dataclass(frozen=True, slots=True)
class OwnModelKeys(ModelKeys):
    """The keys of the own model ``name`` below ``model``; all of them share a hash tag."""

    name: str

    @property
    def shared(self) -> BucketKeys:
        """The keys of its bucket."""
        return BucketKeys(self.model, bucket_of(self.name))

    def _key(self, name: str) -> str:
        return f"nbstream:{{{self.model}/{bucket_of(self.name)}}}:{self.name}:{name}"

    @property
    def changes(self) -> str:
        """The change stream of the bucket: its entries have the names of models."""
        return self.shared.changes

    @property
    def sequence(self) -> str:
        """The sequence number of the last change in the bucket."""
        return self.shared.sequence

    @property
    def name_in_changes(self) -> str:
        """The name of the model in the stream of its bucket."""
        return self.name

    @property
    def log_name(self) -> str:
        """The name of the counts in the log."""
        return f"counts of {self.name}"


def all_keys_pattern(model: str) -> str:
    """Return the pattern of a SCAN that matches the keys of all own models below ``model``, and no others."""
    return f"nbstream:{{{model}/*}}:*"


# Which own models there are: a sorted set in Redis, and a copy of it in the memory of a process that follows it.
#
# And which messages users have labelled in them, for whoever looks for mail that nobody has labelled.
#
# Rules: a model is listed before its first lesson is stored, so a name that is not in the copy has nothing to
# load. Each addition is an entry in a change stream, in one transaction with the set. A removal empties the
# stream: who does not find the entry that was read last reads the whole set again. Names are kept as hashes, so
# that a user who was removed is in no stream; a name with the hash of another one is only loaded needlessly.

_MAX_CHANGES = 1_000
_ADDED = b"added"


def index_key(model: str) -> str:
    """Return the key of a sorted set: the own models that were taught, by the time of their last use."""
    return f"nbstream:{{{model}}}:own"


def changes_key(index: str) -> str:
    """Return the key of the change stream of an index."""
    return f"{index}:changes"


async def list_model(client: Redis, index: str, name: str) -> None:
    """List a model that is used now. Raises ``StoreUnavailable``."""
    with store_errors():
        async with client.pipeline(transaction=True) as pipe:
            pipe.xadd(changes_key(index), {_ADDED: _hash(name)}, maxlen=_MAX_CHANGES)
            pipe.zadd(index, {name: time.time()})
            await pipe.execute()


async def unlist_model(client: Redis, index: str, name: str) -> None:
    """Take a model that was removed from the list. Raises ``StoreUnavailable``."""
    with store_errors():
        async with client.pipeline(transaction=True) as pipe:
            pipe.xtrim(changes_key(index), maxlen=0, approximate=False)  # the number of the last entry stays
            pipe.xadd(changes_key(index), {b"removed": b""})
            pipe.zrem(index, name)
            await pipe.execute()


class ListedModels(Followed):
    """The copy of the list with the key ``index``."""

    def __init__(self, client: Redis, index: str) -> None:
        super().__init__(changes_key(index))
        self._client = client
        self._index = index
        self._hashes: set[bytes] | None = None

    def may_have(self, name: str) -> bool:
        """Return whether the model is listed, or may be because there is no copy now."""
        return self._hashes is None or _hash(name) in self._hashes

    def add(self, name: str) -> None:
        """Take over what this process itself has listed."""
        if self._hashes is not None:
            self._hashes.add(_hash(name))

    def lose(self) -> None:
        """Drop the copy, which is not followed any more."""
        super().lose()
        self._hashes = None

    async def load(self) -> None:
        """Read the whole list."""
        with store_errors():
            last: Any = await self._client.xrevrange(self.stream, count=1)
            names: Any = await self._client.zrange(self._index, 0, -1)
        self.position = position_of(*last[0]) if last else NO_CHANGE
        self._hashes = {_hash(name.decode()) for name in names}

    async def apply(self, entries: StreamEntries) -> None:
        """Take over the next entries, or the whole list where some between are gone."""
        here = self.position.stream_id
        with store_errors():
            known: Any = await self._client.xrange(self.stream, here, here)
        added = [fields.get(_ADDED) for _, fields in entries]
        if self._hashes is None or not known or not all(added):
            await self.load()
            return
        self._hashes.update(hashed for hashed in added if hashed)
        self.position = position_of(*entries[-1])


def _hash(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=8).digest()


class UserLabels:
    """The messages that users have labelled in own models below the model of ``keys``, each for ``seconds``."""

    def __init__(self, client: Redis, keys: ModelKeys, seconds: int) -> None:
        self._client = client
        self._keys = keys
        self._seconds = seconds

    async def add(self, message_key: str) -> None:
        """Note that a user labels the message. Raises ``StoreUnavailable``."""
        with store_errors():
            await self._client.set(self._keys.user_labelled(message_key), b"", ex=self._seconds)

    async def has(self, message_key: str) -> bool:
        """Return whether a user has labelled the message, taken back or not. Raises ``StoreUnavailable``."""
        with store_errors():
            return bool(await self._client.exists(self._keys.user_labelled(message_key)))


_log = logging.getLogger(__name__)

_BATCH = 500
_DAY_SECONDS = 86_400
_END_SECONDS = 60  # for the end of a removal
_TOKEN_BYTES = 90  # of a name and a count in Redis; a message is its ledger entry and its record in the history
_MESSAGE_BYTES = 2_500


class ListedModel(NamedTuple):
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
        self._model = model
        self._key = index_key(model)
        self._client = client_of(client, self._key)

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
        for first in count(0, _BATCH):
            with store_errors():
                found: Any = await self._client.zrange(
                    self._key, first, first + _BATCH - 1, desc=True, withscores=True
                )
            if not found:
                return
            for model in await self._describe([(name.decode(), used_at) for name, used_at in found]):
                yield model

    async def find(self, name: str) -> ListedModel | None:
        """Return the model of this name; None where there is none."""
        with store_errors():
            used_at = await self._client.zscore(self._key, name)
        return None if used_at is None else (await self._describe([(name, used_at)]))[0]

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
        they do so until it is repeated. All keys of Redis are looked at once, however many models there are; of a
        cluster those of a primary for each bucket on it.
        """
        for client, models in self._by_client(names).items():
            await self._remove(client, {keys.name.encode(): keys for keys in models})

    async def _remove(self, client: Redis, keys_of: dict[bytes, OwnModelKeys]) -> None:
        removal = secrets.token_hex(8)
        with store_errors():
            for keys in keys_of.values():
                await client.set(keys.importing, removal)
            locks = {keys.importing.encode() for keys in keys_of.values()}
            async for found in scan_keys(client, all_keys_pattern(self._model)):
                of_model: dict[bytes, list[bytes]] = {}
                for key in found:
                    name, colon, _ = key.partition(b"}:")[2].partition(b":")
                    if colon and name in keys_of and key not in locks:
                        of_model.setdefault(name, []).append(key)
                for name, some in of_model.items():
                    await self._change(client, keys_of[name], removal, partial(_unlink, some))
            for stream in {keys.changes for keys in keys_of.values()}:
                # Whoever has a model of the bucket in memory reads a change without a predecessor, and drops it.
                async with client.pipeline(transaction=True) as pipe:
                    pipe.xtrim(stream, maxlen=0, approximate=False)
                    pipe.xadd(stream, {"sequence": 0})
                    await pipe.execute()
            for name, keys in keys_of.items():
                # Nobody repeats the removal of a model that is not listed: lessons are not refused for ever.
                await self._change(client, keys, removal, partial(_expire, keys.importing))
                await unlist_model(self._client, self._key, name.decode())
                await self._change(client, keys, removal, partial(_unlink, [keys.importing]))

    def _by_client(self, names: Iterable[str]) -> dict[Redis, list[OwnModelKeys]]:
        """Return the keys of these models by the client that leads to them, which is one for all on one server."""
        of_clients: dict[Redis, list[OwnModelKeys]] = {}
        for name in names:
            keys = OwnModelKeys(self._model, name)
            of_clients.setdefault(client_of(self._client, keys.totals), []).append(keys)
        return of_clients

    async def _change(
        self, client: Redis, keys: OwnModelKeys, removal: str, fill: Callable[[Any], object]
    ) -> None:
        """Do what ``fill`` writes into a transaction, unless another removal or an import has begun meanwhile."""
        if not await change_while_held(client, keys.importing, removal, fill):
            raise StoreUnavailable(
                f"another removal of {keys.name}, or an import into it, has begun: this one has ended"
            )

    async def remove_unused(self, days: int) -> None:
        """Remove the models that nobody has used for ``days``."""
        until, count = time.time() - _DAY_SECONDS * days, 0
        while names := await self._idle(until):
            await self.remove(names)
            count += len(names)
        if count:
            _log.info("removed %d own models that had not been used for %d days", count, days)

    async def _describe(self, found: list[tuple[str, float]]) -> list[ListedModel]:
        models = {}
        for client, keys in self._by_client(name for name, _ in found).items():
            with store_errors():
                async with client.pipeline(transaction=False) as pipe:
                    for of_model in keys:
                        pipe.hgetall(of_model.totals)
                    totals = [read_totals(fields)[0] for fields in await pipe.execute()]
                async with client.pipeline(transaction=False) as pipe:
                    for of_model, known in zip(keys, totals, strict=True):
                        for column in known.columns:
                            pipe.hlen(of_model.counts(column))
                    lengths = iter(await pipe.execute())
            for of_model, known in zip(keys, totals, strict=True):
                tokens = sum(next(lengths) for _ in known.columns)
                stored = _TOKEN_BYTES * tokens + _MESSAGE_BYTES * sum(known.messages)
                models[of_model.name] = known.by_label, stored
        return [ListedModel(name, used_at, *models[name]) for name, used_at in found]


def _unlink(keys: Sequence[str | bytes], pipe: Any) -> None:
    pipe.unlink(*keys)


def _expire(key: str, pipe: Any) -> None:
    pipe.expire(key, _END_SECONDS)
