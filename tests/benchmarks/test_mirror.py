"""Figures of the mirror and its store, printed as a table; nothing is asserted of them.

The tokens are made up: 13 bytes, known to one class, every fifth to both. Redis is on a unix socket.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.store.connect import Params, open_client
from nbstream.store.mirror import Mirror
from nbstream.store.model import Model
from tests.conftest import RedisServer
from tests.store.test_mirror import running
from tests.store.writers import LETTERS, other_process

pytestmark = [pytest.mark.bench, pytest.mark.timeout(600)]

TOKENS = 2_000_000


def resident_bytes() -> int:
    """The memory of this process that is in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


async def fill(model: Model) -> int:
    """Put the counts of ``TOKENS`` tokens; returns how many counts that makes over all classes."""
    counts = 0
    for column, key in enumerate(model.keys.counts):
        for start in range(0, TOKENS, 5000):
            numbers = (n for n in range(start, start + 5000) if n % 5 == 4 or n % 2 == column)
            fields = {f"body:{n * 2654435761 % 2**32:08x}": 1000 + n % 90_000 for n in numbers}
            await model.client.hset(key, items=[each for pair in fields.items() for each in pair])
            counts += len(fields)
    return counts


async def test_loading_two_million_tokens(own_redis: RedisServer) -> None:
    client = open_client(Params(own_redis.url))
    model = Model(client, "bench", 3600)
    empty: Any = await client.info("memory")
    counts = await fill(model)
    full: Any = await client.info("memory")

    before, started, worked = resident_bytes(), time.perf_counter(), time.process_time()
    mirror = Mirror(model, 5.0)
    task = asyncio.create_task(mirror.run())
    await mirror.loaded.wait()
    seconds, worked = time.perf_counter() - started, time.process_time() - worked
    memory = resident_bytes() - before
    task.cancel()
    await asyncio.wait([task])
    await client.aclose()

    print(f"\n| figure of {TOKENS:,} tokens, {counts:,} counts | |\n|---|---|")
    print(f"| load, seconds (of these, CPU of this process) | {seconds:.1f} ({worked:.1f}) |")
    print(f"| bytes of this process a token | {memory / TOKENS:.0f} |")
    print(f"| bytes of Redis a token and class | {(full['used_memory'] - empty['used_memory']) / counts:.0f} |")


async def test_the_lag_of_a_mirror_behind_a_writer_in_another_process(
    client: Redis, shared_redis: RedisServer
) -> None:
    """From the millisecond in which Redis made the change until the mirror here has it: up to 1 ms too much."""
    plan = [(number, "spam" if number % 2 else "ham") for number in range(len(LETTERS))]
    lags, last = [], b"0-0"
    async with (
        running(Mirror(Model(client, "test", 3600), 5.0)) as mirror,
        other_process(shared_redis.url, [plan]),
    ):
        while sum(mirror.totals.messages if mirror.totals else ()) < len(plan):
            milliseconds, _, number = last.partition(b"-")
            await mirror.applied(b"%b-%d" % (milliseconds, int(number) + 1))
            now = time.time()
            assert mirror._replica is not None
            last = mirror._replica.last_id
            lags.append(now * 1000 - int(last.partition(b"-")[0]))

    quantiles = statistics.quantiles(lags, n=20)
    print(f"\nlag of {len(lags)} changes: median {statistics.median(lags):.1f} ms, 95 % {quantiles[-1]:.1f} ms")
