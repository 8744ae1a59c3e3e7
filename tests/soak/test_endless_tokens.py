"""Endless unique tokens: five million of them against a limit of 500,000."""

from __future__ import annotations

import random
import time
from itertools import chain
from typing import Any

import numpy as np
import pytest

from nbstream.bayes.counts import CLASSES
from nbstream.store.connection import ConnectionOptions, open_client
from nbstream.store.mirror.eviction import Evictor
from nbstream.store.mirror.mirror import Mirror
from nbstream.store.model.model import Model
from tests.harness.lessons import change, entry
from tests.harness.mirrors import running
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until
from tests.store.mirror.test_eviction import assert_totals_match, caught_up, running_evictor
from tests.store.mirror.test_mirror import equals_redis

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

LIMIT = 500_000
MESSAGES = 20_000
TOKENS = 250  # of each message
LIVE_MESSAGES = 1_200  # fewer tokens than the limit: what is older has left the ledger


async def test_5_million_unique_tokens_stay_within_500_000(own_redis: RedisServer) -> None:
    client = open_client(ConnectionOptions(own_redis.url, timeout_seconds=30))
    await client.config_set("slowlog-log-slower-than", 1000)
    await client.config_set("slowlog-max-len", 100_000)
    model = Model(client, "soak", ledger_seconds=3600)
    await model.open()
    draw, evicted, largest, peak = random.Random(1), list[int](), 0, 0
    started = time.monotonic()
    async with running(Mirror(model)) as mirror:
        async with running_evictor(Evictor(model, mirror, LIMIT, evicted.append)):
            for number in range(MESSAGES):
                tokens = [b"%016x" % draw.getrandbits(64) for _ in range(TOKENS)]
                await change(model, f"m{number}", entry(CLASSES[number % 2], tokens, draw.randint(1, 1000)))
                await client.delete(model.keys.ledger(f"m{number - LIVE_MESSAGES}"))
                if number % 100 == 0:
                    await caught_up(model, mirror)
                    largest = max(largest, mirror.vocabulary_size)
                    memory: Any = await client.info("memory")
                    peak = max(peak, memory["used_memory"])
            await caught_up(model, mirror)
            await until(lambda: mirror.vocabulary_size == MESSAGES * TOKENS - sum(evicted) <= LIMIT)
            seconds = time.monotonic() - started
            print(f"\n{MESSAGES * TOKENS:,} tokens in {seconds:.0f} s, {sum(evicted):,} of them forgotten")
            print(f"in {len(evicted):,} steps; the largest vocabulary was {largest / LIMIT:.2f} of the limit")
            print(f"Redis {peak / 1e6:.0f} MB at most, change stream, history and ledger too")
            await _print_slow_calls(client)
        await caught_up(model, mirror)

        left = mirror.snapshot()[0]
        assert len(left) <= LIMIT
        recent = [await model.entry(f"m{number}") for number in range(MESSAGES - LIVE_MESSAGES // 2, MESSAGES)]
        assert set(left) >= set(chain.from_iterable(each.tokens for each in recent if each))
        assert await equals_redis(mirror, model, left)
        await assert_totals_match(model)
        assert sorted((await model.counts()).tokens()) == sorted(left)
        for each in CLASSES:
            size: Any = await client.memory_usage(f"nbstream:{{soak}}:counts:{each}", samples=0)
            fields: Any = await client.hlen(f"nbstream:{{soak}}:counts:{each}")
            print(f"counts of {each}: {size / fields:.0f} bytes of Redis a token")
    await client.aclose()


async def _print_slow_calls(client: Any) -> None:
    """How long Redis was busy with calls of each script, by its own clock, which other processes slow down."""
    calls = [call for call in await client.slowlog_get(100_000) if call["command"].startswith(b"EVALSHA")]
    for digest in sorted({call["command"].split()[1] for call in calls}):
        times = np.array([call["duration"] for call in calls if digest in call["command"]]) / 1000
        longer = ", ".join(f"{(times > limit).sum():,} over {limit} ms" for limit in (1, 2, 5, 20))
        print(f"script {digest[:8].decode()}: {longer}, the longest {times.max():.1f} ms")
