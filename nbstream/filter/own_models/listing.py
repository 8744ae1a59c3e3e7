"""Which own models there are: a sorted set in Redis, and a copy of it in the memory of a process that follows it.

And which messages users have labelled in them, for whoever looks for mail that nobody has labelled.

Rules: a model is listed before its first lesson is stored, so a name that is not in the copy has nothing to load.
Each addition is an entry in a change stream, in one transaction with the set. A removal empties the stream: who
does not find the entry that was read last reads the whole set again. Names are kept as hashes, so that a user who
was removed is in no stream; a name with the hash of another one is only loaded needlessly.
"""

from __future__ import annotations

import time
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import NO_CHANGE
from nbstream.store.mirror.follower import Followed, position_of
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.mirror.follower import StreamEntries
    from nbstream.store.model.keys import ModelKeys

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
