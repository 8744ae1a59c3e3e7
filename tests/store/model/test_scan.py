"""A scan of all counts ends when it is cancelled, whatever becomes of the cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.counts import ClassCounts
from nbstream.store.model.keys import ModelKeys
from nbstream.store.model.scan import SCAN_STEP, scan_counts


class CancellationLosingClient:
    """A client that loses the first cancellation of each command, as redis-py does in Python 3.11."""

    def __init__(self, client: Redis) -> None:
        self._client, self.connection_pool = client, client.connection_pool
        self.steps = 0
        self.under_way = asyncio.Event()

    async def hscan(self, *words: Any, **options: Any) -> Any:
        self.steps += 1
        self.under_way.set()
        step = asyncio.ensure_future(self._client.hscan(*words, **options))
        try:
            return await asyncio.shield(step)
        except asyncio.CancelledError:
            return await step


async def test_a_scan_ends_with_the_step_that_lost_a_cancellation(client: Redis) -> None:
    keys = ModelKeys("test")
    for key in map(keys.counts, CLASSES):
        await client.hset(key, mapping={f"body:{n}": n + 1 for n in range(10 * SCAN_STEP)})
    losing = CancellationLosingClient(client)
    scan = scan_counts(losing, keys, ClassCounts())  # type: ignore[arg-type]  # the scan uses no other method
    scanning = asyncio.create_task(scan)
    await losing.under_way.wait()

    scanning.cancel()

    with pytest.raises(asyncio.CancelledError):
        await scanning
    assert losing.steps <= len(CLASSES)
    assert len(asyncio.all_tasks()) == 1
