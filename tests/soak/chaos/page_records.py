"""The audit of what the page stores: rows and their indices, sessions, and that all of it expires."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from typing import Any

from redis.asyncio import Redis

from nbstream.errors import StoreIncompatible
from nbstream.store.logins import COUNTED_SECONDS, LINK_SECONDS, SESSION_SECONDS
from nbstream.store.model.keys import ModelKeys
from nbstream.store.recent.message_rows import MessageRow
from tests.soak.chaos.deviations import Deviation

_MEMORY_SECONDS = 72 * 3600
_LONGEST_LIVES = {
    "page:link:": LINK_SECONDS,
    "page:session:": SESSION_SECONDS,
    "attempts:": COUNTED_SECONDS,
    "row:": _MEMORY_SECONDS,
    "rows": _MEMORY_SECONDS,
    "checked:": _MEMORY_SECONDS,
    "recent": _MEMORY_SECONDS,
}
"""The beginnings of the names of keys that must expire, and the longest time until then, in seconds."""


async def page_deviations(redis: Redis, keys: ModelKeys) -> AsyncIterator[Deviation]:
    """Yield what is wrong with what the page stores of a model."""
    prefix = keys.pattern.removesuffix("*")
    names = [name.decode() async for name in redis.scan_iter(keys.pattern, count=1000)]
    async with redis.pipeline(transaction=False) as pipe:
        for name in names:
            pipe.ttl(name)
        lives = dict(zip([name.removeprefix(prefix) for name in names], await pipe.execute(), strict=True))
    for deviation in _life_deviations(lives):
        yield deviation
    for deviation in row_deviations(await _read_indices(redis, keys, lives), await _read_rows(redis, keys, lives)):
        yield deviation


def _life_deviations(lives: Mapping[str, int]) -> Iterator[Deviation]:
    """Yield which key of the page does not expire, or too late; -2 is one that has expired meanwhile."""
    for name, seconds in lives.items():
        for beginning, longest in _LONGEST_LIVES.items():
            if name.startswith(beginning) and (seconds == -1 or seconds > longest):
                yield Deviation(f"the key {name} expires in {seconds} s, not in {longest} s (-1: never)")


def row_deviations(
    indices: Mapping[str, Mapping[str, float]], rows: Mapping[str, MessageRow | None]
) -> Iterator[Deviation]:
    """Yield where the rows and their indices do not agree.

    ``indices`` are the times of the ids in ``recent`` and ``rows:to:NAME``; ``rows`` are the rows by id,
    None for one that cannot be read.
    """
    expected: dict[str, dict[str, float]] = {}
    times: dict[str, float] = {}
    for message_id, row in rows.items():
        if row is None:
            yield Deviation(f"the row of {message_id} cannot be read")
            continue
        times[message_id] = row.checked_at
        for name in row.indices:
            expected.setdefault(f"rows:to:{name}", {})[message_id] = row.checked_at
    for name in sorted({*expected, *indices} - {"recent"}):
        own, wanted = indices.get(name, {}), expected.get(name, {})
        if own != wanted:
            different = sorted(id_ for id_ in {*own, *wanted} if own.get(id_) != wanted.get(id_))
            yield Deviation(f"{len(different)} entries of {name} are not those of the rows: {different[:3]}")
    recent = indices.get("recent", {})
    unknown = [message_id for message_id, at in times.items() if recent.get(message_id) != at]
    if unknown:
        yield Deviation(f"{len(unknown)} messages have a row and are not remembered so: {unknown[:3]}")


async def _read_indices(
    redis: Redis, keys: ModelKeys, names: Mapping[str, object]
) -> Mapping[str, Mapping[str, float]]:
    prefix = keys.pattern.removesuffix("*")
    indices: dict[str, dict[str, float]] = {}
    for name in names:
        if name == "recent" or name.startswith("rows"):
            entries: Any = await redis.zrange(f"{prefix}{name}", 0, -1, withscores=True)
            indices[name] = {member.decode(): at for member, at in entries}
    return indices


async def _read_rows(
    redis: Redis, keys: ModelKeys, names: Mapping[str, object]
) -> Mapping[str, MessageRow | None]:
    ids = [name.removeprefix("row:") for name in names if name.startswith("row:")]
    values: Any = await redis.mget([keys.row(message_id) for message_id in ids]) if ids else []
    return {message_id: _unpacked(message_id, value) for message_id, value in zip(ids, values, strict=True)}


def _unpacked(message_id: str, packed: bytes) -> MessageRow | None:
    try:
        return MessageRow.unpack(message_id, packed)
    except StoreIncompatible:
        return None
