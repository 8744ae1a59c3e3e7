"""The sender lists that people change while the daemon runs: one of the site, and one of each user.

Rules: all lists of a model are in Redis, beside its counts. Who changed an entry last, and when, stands in it.
Each process has a copy in memory, which it compares with Redis once a second: one number says whether something
has changed, and then the lists of the changed owners are read. While Redis is away the last copy holds, and
afterwards all lists are read again, since another server may answer. No message waits for Redis.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from nbstream.policy.address_patterns import MAX_ENTRIES, MAX_SEARCHED_ENTRIES, SenderPattern
from nbstream.policy.sender_lists import ListEntry, ListKind, OwnerList
from nbstream.store.lua import lua_script
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from redis.asyncio import Redis

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


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry with who wrote it, and when (seconds since the epoch)."""

    kind: ListKind
    pattern: SenderPattern
    at: float
    actor: str

    def pack(self) -> str:
        """Return the stored form, without the pattern."""
        return f"{self.kind} {self.at:.3f} {self.actor}"

    @classmethod
    def unpack(cls, pattern: bytes, value: bytes) -> StoredEntry | None:
        """Return the entry that is stored; None for what another program wrote."""
        kind, _, rest = value.decode("utf-8", "replace").partition(" ")
        at, _, actor = rest.partition(" ")
        try:
            return cls(ListKind(kind), SenderPattern.parse(pattern.decode()), float(at), actor)
        except ValueError:
            return None


class StoredSenderLists:
    """The lists of one model in Redis; an owner is ``SITE``, or ``list_owner`` of an address.

    All methods raise ``StoreUnavailable``.
    """

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._script = client.register_script(lua_script("sender_list.lua"))

    async def entries(self, owner: str) -> Sequence[StoredEntry]:
        """Return the entries of the owner, ordered by kind and sender."""
        with store_errors(), readable_replies():
            found = _unpack(await self._client.hgetall(self._keys.sender_list(owner)))
        return sorted(found, key=lambda entry: (entry.kind, entry.pattern.text))

    async def add(self, owner: str, kind: ListKind, pattern: SenderPattern, actor: str) -> ListChange:
        """Add an entry, or change its kind; ``actor`` says who did. The same once more changes nothing."""
        if pattern.is_searched:
            searched = [entry.pattern for entry in await self.entries(owner) if entry.pattern.is_searched]
            if len(searched) >= MAX_SEARCHED_ENTRIES and pattern not in searched:
                return ListChange.FULL
        entry = StoredEntry(kind, pattern, time.time(), _printable(actor))
        limits = (MAX_ENTRIES, MAX_ALL_ENTRIES)
        return ListChange(_text(await self._change("add", owner, pattern.text, entry.pack(), *limits)))

    async def remove(self, owner: str, pattern: SenderPattern) -> ListChange:
        """Remove an entry."""
        return ListChange(_text(await self._change("remove", owner, pattern.text)))

    async def forget(self, owner: str) -> int:
        """Remove all that is stored of the owner, and return how many entries there were."""
        return int(await self._change("forget", owner))

    async def _change(self, action: str, owner: str, *arguments: str | int) -> bytes | int:
        keys = [self._keys.sender_lists, self._keys.sender_list_owners, self._keys.sender_list(owner)]
        least_version = int(time.time() * 1e6)
        with store_errors(), readable_replies():
            reply: bytes | int = await self._script(keys=keys, args=[action, owner, least_version, *arguments])
        return reply


def _unpack(stored: Mapping[Any, Any]) -> list[StoredEntry]:
    """Return the entries in a stored list."""
    return [entry for pattern, value in stored.items() if (entry := StoredEntry.unpack(pattern, value))]


def _text(reply: bytes | int) -> str:
    return reply.decode() if isinstance(reply, bytes) else str(reply)


def _printable(actor: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in actor[:MAX_ACTOR_LENGTH])


class FollowedSenderLists:
    """A copy of all lists of a model in the memory of this process."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._lists: dict[str, OwnerList] = {}
        self._version: int | None = None
        self.loaded = asyncio.Event()
        """Whether all lists have been read once."""

    @property
    def by_owner(self) -> Mapping[str, OwnerList]:
        """The lists that have entries, by their owners; the content of this mapping changes."""
        return self._lists

    async def update(self) -> None:
        """Read what has changed since the last time; all after a failure, since another server may answer then.

        Raises ``StoreUnavailable``.
        """
        last, self._version = self._version, None
        with store_errors(), readable_replies():
            about = await self._client.hmget(self._keys.sender_lists, ["version", "reload"])
            version, reload = (int(number or 0) for number in about)
            if version != last:
                await self._read_since(last if last is not None and reload <= last < version else None)
            self._version = version
        self.loaded.set()

    async def _read_since(self, last: int | None) -> None:
        """Read the lists that have changed since the version ``last``, or all."""
        if last is None:
            lists = await self._read(await self._all_owners())
            self._lists.clear()
        else:
            lists = await self._read(await self._owners_since(last))
        self._lists.update(lists)
        for owner in [owner for owner in lists if not lists[owner]]:
            del self._lists[owner]

    async def _all_owners(self) -> Sequence[bytes]:
        owners = [owner async for owner, _ in self._client.zscan_iter(self._keys.sender_list_owners, count=1000)]
        return list(dict.fromkeys(owners))  # a scan may give one twice

    async def _owners_since(self, version: int) -> Sequence[bytes]:
        key = self._keys.sender_list_owners
        owners: Any = await self._client.zrange(key, f"({version}", "+inf", byscore=True)
        return list(owners)

    async def _read(self, owners: Sequence[bytes]) -> dict[str, OwnerList]:
        lists = {}
        for start in range(0, len(owners), _OWNERS_PER_STEP):
            names = [owner.decode() for owner in owners[start : start + _OWNERS_PER_STEP]]
            async with self._client.pipeline(transaction=False) as pipe:
                for name in names:
                    pipe.hgetall(self._keys.sender_list(name))
                stored = await pipe.execute()
            for name, items in zip(names, stored, strict=True):
                lists[name] = OwnerList([ListEntry(entry.kind, entry.pattern) for entry in _unpack(items)])
                await asyncio.sleep(0)  # a long list takes milliseconds
        return lists
