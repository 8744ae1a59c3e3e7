"""Two primaries under real sentinels, for longer than lessons are recorded."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest

from nbstream.store.connection import SentinelNodes
from nbstream.store.recovery.missing_lessons import LessonFate
from tests.redis_servers.network import CLIENTS, Network
from tests.redis_servers.sentinel_set import SERVICE, SentinelSet
from tests.redis_servers.server_process import ServerProcess
from tests.store.acknowledged_lessons import lesson_segments
from tests.store.algebra import live_entries, stored, summed
from tests.store.recovery.hosts import host_at
from tests.store.writers import LETTERS
from tests.waiting import until

LINES = ("repl-timeout 2", "repl-ping-replica-period 1")  # until a primary misses its replicas; by default 60 s


@pytest.mark.soak
async def test_what_a_primary_took_that_was_cut_off_with_the_host_for_an_hour_is_taught_again(
    server_program: Path, tmp_path: Path
) -> None:
    with (
        Network() as network,
        SentinelSet(server_program, tmp_path / "set", network=network, lines=LINES) as servers,
    ):
        addresses = tuple((sentinel.host, sentinel.public_port) for sentinel in servers.sentinels)
        async with host_at(SentinelNodes(addresses, SERVICE), tmp_path / "state") as host:
            old = await asyncio.to_thread(servers.primary)
            assert old.ask("WAIT", 2, 10_000) == 2, "the replicas know the model"
            network.isolate({old.host, CLIENTS})
            await until(lambda: has_no_replica(old), 60)
            for number in range(3):
                await host.spam_filter.learn(LETTERS[number], "spam", "http")
            an_hour_ago = time.time() - 3600
            for path in lesson_segments(host.journal.folder):
                os.utime(path, (an_hour_ago, an_hour_ago))
            assert await host.restorer.restore_missing() == 0, "nothing is missing where the host looks"
            await asyncio.to_thread(servers.wait_for_new_primary, old)
            loads = host.mirror.loads
            network.join()
            await host.mirror.wait_for_load_after(loads)
            await asyncio.to_thread(servers.wait_until_whole)

            assert await host.restorer.restore_missing() == 3

            assert host.losses.findings == {LessonFate.MISSING: 3}
            assert {entry.label for entry in (await live_entries(host.model)).values()} == {"spam"}
            assert await stored(host.model) == await summed(host.model)


async def has_no_replica(server: ServerProcess) -> bool:
    role = await asyncio.to_thread(server.ask, "ROLE")
    return isinstance(role, list) and role[2] == []
