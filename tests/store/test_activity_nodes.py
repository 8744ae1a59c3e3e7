"""``store.activity`` behind Sentinels and in a cluster: who listens is told, also after a failover."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.policy.verdict import Verdict
from nbstream.store.activity import (
    ActivityCounter,
    ActivityReader,
    ActivitySpan,
    ActivityWriter,
    ProcessStatus,
    watch_activity,
)
from nbstream.store.connection import open_client
from nbstream.store.model.keys import ModelKeys
from tests.redis_servers.cluster_set import ClusterSet
from tests.redis_servers.sentinel_set import SentinelSet
from tests.store.test_locators import cluster_options, sentinel_options
from tests.waiting import DEADLINE_SECONDS, until

KEYS = ModelKeys("test")
STATUS = ProcessStatus("mx1", 0, "0.7.0", True, 0.0)


@pytest.fixture(params=["sentinels", "cluster"])
async def servers(
    request: pytest.FixtureRequest, server_program: Path, tmp_path: Path
) -> AsyncIterator[tuple[SentinelSet | ClusterSet, Redis]]:
    if request.param == "sentinels":
        with SentinelSet(server_program, tmp_path / "set") as sentinels:
            async with open_client(sentinel_options(sentinels), retries=0) as client:
                yield sentinels, client
    else:
        with ClusterSet(server_program, tmp_path / "set") as cluster:
            async with open_client(cluster_options(cluster), retries=0) as client:
                yield cluster, client


async def test_who_listens_is_told_before_and_after_a_failover(
    servers: tuple[SentinelSet | ClusterSet, Redis],
) -> None:
    running, client = servers
    counter = ActivityCounter()
    writer = ActivityWriter(client, KEYS, counter, "mx1/0", lambda: STATUS, lambda _: None)
    async with watch_activity(client, KEYS) as watch:
        counter.count(Verdict.HAM, 0.001)
        await writer.write()
        assert await watch.wait(DEADLINE_SECONDS)
        primary = (
            running.primary()
            if isinstance(running, SentinelSet)
            else running.owner(running.slot(KEYS.activity_channel))
        )
        primary.kill()
        with pytest.raises(StoreUnavailable):
            await watch.wait(DEADLINE_SECONDS)

    async def is_told() -> bool:
        try:
            async with watch_activity(client, KEYS) as again:
                counter.count(Verdict.HAM, 0.001)
                await writer.write()
                return await again.wait(1)
        except StoreUnavailable:
            return False

    await until(is_told)
    found, _ = await ActivityReader(client, KEYS).read(ActivitySpan.HOUR)
    assert found.totals[Verdict.HAM] >= 1
