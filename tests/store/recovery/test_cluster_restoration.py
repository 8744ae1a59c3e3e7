"""In a cluster too, what a promoted replica lacks is taught to it again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from nbstream.store.connection import ClusterNodes
from nbstream.store.recovery.missing_lessons import LessonFate
from tests.redis_servers.cluster_set import ClusterSet
from tests.store.algebra import live_entries, stored, summed
from tests.store.recovery.hosts import host_at, restoring
from tests.store.writers import LETTERS
from tests.waiting import until


@pytest.mark.soak
async def test_lessons_that_the_replica_never_got_are_taught_to_it_when_it_owns_the_slot(
    server_program: Path, tmp_path: Path
) -> None:
    with ClusterSet(server_program, tmp_path / "cluster") as cluster:
        nodes = ClusterNodes(tuple((node.host, node.public_port) for node in cluster.nodes))
        slot = cluster.slot("nbstream:{test}:totals")
        primary = cluster.owner(slot)
        replica = cluster.replica_of(primary)
        async with host_at(nodes, tmp_path / "state") as host, restoring(host):
            for number in range(3):
                await host.spam_filter.learn(LETTERS[number], "ham", "http")
            assert primary.ask("WAIT", 1, 5000) == 1
            replica.stop()
            primary.ask("CLIENT", "KILL", "TYPE", "replica")
            for number in range(3, 10):
                await host.spam_filter.learn(LETTERS[number], "spam", "http")
            primary.kill()
            replica.resume()
            assert await asyncio.to_thread(cluster.wait_for_new_owner, slot, primary) is replica

            await until(lambda: host.losses.restored == 7, 60)

            assert host.losses.findings == {LessonFate.MISSING: 7}
            labels = {key: entry.label for key, entry in (await live_entries(host.model)).items()}
            assert labels == {LETTERS[n].key: "ham" if n < 3 else "spam" for n in range(10)}
            assert await stored(host.model) == await summed(host.model)
