"""The sender lists that people change while the daemon runs: one of the site, and one of each user.

Rules: all lists of a model are in Redis, beside its counts. Who changed an entry last, and when, stands in it.
Each process has a copy in memory, which follows a change stream: an entry says whose list has changed, and that
list is read. While Redis is away the last copy holds, and afterwards all lists are read again. No message waits
for Redis.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nbstream.bayes.counts import NO_CHANGE
from nbstream.policy.address_patterns import MAX_ENTRIES, MAX_NETWORKS, SenderPattern
from nbstream.policy.sender_lists import ListEntry, ListKind, OwnerList
from nbstream.store.follower.follower import Followed, position_of
from nbstream.store.lua import lua_script
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from redis.asyncio import Redis

    from nbstream.store.follower.follower import StreamEntries
    from nbstream.store.model.keys import ModelKeys

MAX_ALL_ENTRIES = 200_000
"""How many entries all lists of a model may have; each takes some 150 bytes of Redis and of each process."""

MAX_ACTOR_LENGTH = 100

_OWNERS_PER_STEP = 10


class ListChange(StrEnum):
    """What became of a change: ``changed`` is an entry of the other kind before, ``full`` changed nothing."""

    ADDED = "added"
    CHANGED = "changed"
    ALREADY = "already"
    FULL = "full"
    REMOVED = "removed"
    UNKNOWN = "unknown"


class StoredSenderLists:
    """The lists of one model in Redis; an owner is ``SITE``, or ``list_owner`` of an address.

    All methods raise ``StoreUnavailable``.
    """

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._script = client.register_script(lua_script("sender_list.lua"))

    async def entries(self, owner: str) -> Sequence[ListEntry]:
        """Return the entries of the owner, ordered by kind and sender."""
        with store_errors(), readable_replies():
            found = _unpack(await self._client.hgetall(self._keys.sender_list(owner)))
        return sorted(found, key=lambda entry: (entry.kind, entry.pattern.text))

    async def add(self, owner: str, kind: ListKind, pattern: SenderPattern, actor: str) -> ListChange:
        """Add an entry, or change its kind; ``actor`` says who did. The same once more changes nothing."""
        if pattern.network:
            networks = [entry.pattern for entry in await self.entries(owner) if entry.pattern.network]
            if len(networks) >= MAX_NETWORKS and pattern not in networks:
                return ListChange.FULL
        packed = f"{kind} {time.time():.3f} {_printable(actor)}"
        limits = (MAX_ENTRIES, MAX_ALL_ENTRIES)
        return ListChange(_text(await self._change("add", owner, pattern.text, packed, *limits)))

    async def remove(self, owner: str, pattern: SenderPattern) -> ListChange:
        """Remove an entry."""
        return ListChange(_text(await self._change("remove", owner, pattern.text)))

    async def forget(self, owner: str) -> int:
        """Remove all that is stored of the owner, and return how many entries there were."""
        return int(await self._change("forget", owner))

    async def _change(self, action: str, owner: str, *arguments: str | int) -> bytes | int:
        keys = self._keys
        names = [keys.sender_lists, keys.sender_list_owners, keys.sender_list(owner), keys.sender_list_changes]
        with store_errors(), readable_replies():
            reply: bytes | int = await self._script(keys=names, args=[action, owner, *arguments])
        return reply


def _unpack(stored: Mapping[Any, Any]) -> list[ListEntry]:
    """Return the entries in a stored list, without what another program wrote."""
    entries = []
    for pattern, value in stored.items():
        kind, _, rest = value.decode("utf-8", "replace").partition(" ")
        at, _, actor = rest.partition(" ")
        with suppress(ValueError):
            entries.append(ListEntry(ListKind(kind), SenderPattern.parse(pattern.decode()), float(at), actor))
    return entries


def _text(reply: bytes | int) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _printable(actor: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in actor[:MAX_ACTOR_LENGTH])


class FollowedSenderLists(Followed):
    """A copy of all lists of a model in the memory of this process."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        super().__init__(keys.sender_list_changes)
        self._client = client
        self._keys = keys
        self.by_owner: dict[str, OwnerList] = {}
        """The lists that have entries, by their owners; it is the same mapping at all times."""

    async def load(self) -> None:
        """Read all lists."""
        with store_errors():
            last: Any = await self._client.xrevrange(self.stream, count=1)
            scan = self._client.zscan_iter(self._keys.sender_list_owners, count=1000)
            owners = dict.fromkeys([owner async for owner, _ in scan])  # a scan may give one twice
            lists = await self._read(list(owners))
        self.by_owner.clear()
        self._take_over(lists)
        self.position = position_of(*last[0]) if last else NO_CHANGE

    async def apply(self, entries: StreamEntries) -> None:
        """Read the lists that have changed, or all where an owner was forgotten or entries are gone."""
        owners = dict.fromkeys(fields.get(b"owner", b"") for _, fields in entries)
        known = [self.position.stream_id, *(entry_id for entry_id, _ in entries)]
        if not all(owners) or any(
            fields.get(b"predecessor") != former for (_, fields), former in zip(entries, known, strict=False)
        ):
            await self.load()
            return
        with store_errors():
            self._take_over(await self._read(list(owners)))
        self.position = position_of(*entries[-1])

    def _take_over(self, lists: Mapping[str, OwnerList]) -> None:
        self.by_owner.update(lists)
        for owner in [owner for owner in lists if not lists[owner]]:
            del self.by_owner[owner]

    async def _read(self, owners: Sequence[bytes]) -> dict[str, OwnerList]:
        lists = {}
        for start in range(0, len(owners), _OWNERS_PER_STEP):
            names = [owner.decode() for owner in owners[start : start + _OWNERS_PER_STEP]]
            async with self._client.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.hgetall(self._keys.sender_list(name))
                stored = await pipe.execute()
            for name, items in zip(names, stored, strict=True):
                lists[name] = OwnerList(_unpack(items))
                await asyncio.sleep(0)  # a long list takes milliseconds
        return lists
