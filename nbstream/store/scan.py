"""All counts and first scores of a model, read from Redis by bounded steps.

Rules: a step is one HSCAN or ZSCAN of about ``STEP`` fields, so that nobody waits long behind it. While others
learn, each count is as it was at some moment of the scan.
"""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import numpy as np

from nbstream.bayes.counts import CLASSES, Counts
from nbstream.errors import StoreIncompatible
from nbstream.policy.first_scores import FirstScores

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Mapping

    from redis.asyncio import Redis

    from nbstream.store.keys import Keys

STEP = 2000  # fields: 1 to 2 ms of Redis


async def scan(client: Redis, keys: Keys) -> Counts:
    """The counts of all tokens and sums, without totals. Raises what redis-py raises."""
    counts = Counts()
    for column, key in enumerate(keys.counts):
        async with aclosing(_steps(client, key)) as steps:
            async for fields in steps:
                values = np.fromstring(b" ".join(fields.values()), dtype=np.int64, sep=" ")
                counts.put_column(list(fields), column, values)
    return counts


async def _steps(client: Redis, key: str) -> AsyncGenerator[Mapping[bytes, bytes], None]:
    """The fields of a hash with their values; Redis looks up the next ones while these are used."""

    async def step(cursor: int) -> Any:
        return await client.hscan(key, cursor, count=STEP)

    reply = asyncio.create_task(step(0))
    try:
        while True:
            cursor, fields = await reply
            if cursor:
                reply = asyncio.create_task(step(cursor))
                await asyncio.sleep(0)  # the command goes out
            yield fields
            if not cursor:
                return
    finally:
        reply.cancel()
        await asyncio.gather(reply, return_exceptions=True)


async def scan_first_scores(client: Redis, keys: Keys) -> FirstScores:
    """All that are kept. Raises ``StoreIncompatible``, and what redis-py raises."""
    first_scores = FirstScores()
    for label, key in zip(CLASSES, keys.first_scores, strict=True):
        cursor = None
        while cursor != 0:
            reply: Any = await client.zscan(key, cursor or 0, count=STEP)
            cursor, members = reply
            try:
                for packed, _ in members:
                    first_scores[label].add(packed)
            except ValueError as error:
                raise StoreIncompatible("a first score cannot be read: another program wrote it") from error
    return first_scores
