"""Keys, counts and prequential scores of a model, read in bounded steps, and one step that changes keys.

Rules: a step is one SCAN, HSCAN or ZSCAN of a bounded number of elements, so that other commands do not wait long.
While others learn, each count is as it was at some moment of the scan. All steps go to one server, since a cursor
has no meaning in another one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from redis.exceptions import WatchError

from nbstream.bayes.columns import CLASSES
from nbstream.errors import StoreIncompatible
from nbstream.numpy_on_demand import np
from nbstream.policy.thresholds import PrequentialScores
from nbstream.store.connection import ServerGuard

if TYPE_CHECKING:
    from collections.abc import Callable

    from redis.asyncio import Redis

    from nbstream.bayes.counts import Counts
    from nbstream.store.model.keys import ModelKeys

SCAN_STEP = 2000  # fields: 1 to 2 ms of Redis
_TRIES = 3
_KEYS_STEP = 500  # well under a millisecond of Redis


async def scan_keys(client: Redis, pattern: str, count: int = _KEYS_STEP) -> AsyncIterator[list[bytes]]:
    """Yield the keys that match ``pattern``, about ``count`` keys of the whole database at a step.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers in the middle, or keys of
    the model are being moved to another node of a cluster.
    """
    guard, cursor = ServerGuard(client), None
    await guard.check_keys()
    while cursor != 0:
        reply: Any = await client.scan(cursor or 0, match=pattern, count=count)
        guard.check()
        cursor, keys = reply
        if keys:
            yield keys
    await guard.check_keys()


async def remove_keys(client: Redis, pattern: str) -> None:
    """Remove the keys that match ``pattern``. Raises what ``scan_keys`` raises."""
    async for keys in scan_keys(client, pattern):
        await client.unlink(*keys)


async def scan_hash(
    client: Redis, key: str, guard: ServerGuard, count: int = SCAN_STEP
) -> AsyncIterator[dict[bytes, bytes]]:
    """Yield the fields of a hash, about ``count`` in a step.

    A field may be deleted after it was yielded.

    Raises what redis-py raises, and ``StoreUnavailable`` where another server answers than that of ``guard``.
    """
    cursor = None
    while cursor != 0:
        reply: Any = await client.hscan(key, cursor or 0, count=count)
        guard.check()
        cursor, fields = reply
        if fields:
            yield fields


async def scan_counts(client: Redis, keys: ModelKeys, counts: Counts) -> None:
    """Add the counts of all tokens and sums to ``counts``, which are empty and have the columns, without totals.

    Raises what ``scan_hash`` raises. All columns are scanned at once: while the client reads a step of one,
    Redis works on another.
    """
    guard = ServerGuard(client)

    async def scan_column(column: str) -> None:
        async for fields in scan_hash(client, keys.counts(column), guard):
            values = np.fromstring(b" ".join(fields.values()), dtype=np.int64, sep=" ")
            counts.set_column(list(fields), column, values)

    scans = [asyncio.create_task(scan_column(column)) for column in counts.column_totals.columns]
    try:
        await asyncio.gather(*scans)
    finally:
        for scan in scans:
            scan.cancel()
        await asyncio.gather(*scans, return_exceptions=True)


async def scan_prequential_scores(client: Redis, keys: ModelKeys) -> PrequentialScores:
    """Return all prequential scores of the model. Raises ``StoreIncompatible``, and what ``scan_hash`` raises."""
    prequential_scores, guard = PrequentialScores(), ServerGuard(client)
    for label, key in zip(CLASSES, keys.prequential_scores, strict=True):
        cursor = None
        while cursor != 0:
            reply: Any = await client.zscan(key, cursor or 0, count=SCAN_STEP)
            guard.check()
            cursor, members = reply
            try:
                for packed, _ in members:
                    prequential_scores[label].add(packed)
            except ValueError as error:
                raise StoreIncompatible("a prequential score cannot be read: another program wrote it") from error
    return prequential_scores


async def change_while_held(client: Redis, key: str, holder: str, fill: Callable[[Any], object]) -> bool:
    """Do what ``fill`` writes into a transaction where ``key`` has the value ``holder``; return whether it has.

    It is done again where the connection was lost: redis-py says the same then as for a change of the key. Raises
    what redis-py raises.
    """
    for _ in range(_TRIES):
        with suppress(WatchError):
            pipe: Any
            async with client.pipeline(transaction=True) as pipe:
                await pipe.watch(key)
                if await pipe.get(key) != holder.encode():
                    return False
                pipe.multi()
                fill(pipe)
                await pipe.execute()
                return True
    return False
