"""Servers that fail again and again under mail, lessons and stream entries: what each event costs, as a table.

`pytest -s` shows the table. No mail is refused, refused lessons are acknowledged when they are tried again, and
with ``wait_replicas`` nothing that was acknowledged is lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.network import CLIENTS, Network
from tests.harness.redis.sentinel_set import SentinelSet
from tests.harness.traffic import Servers, Traffic, audit, stream_answers, table
from tests.integration import test_cluster, test_sentinel
from tests.integration.test_cluster import ModelServers

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KILLS = 20
DURABLE = ("appendfsync always", "min-replicas-to-write 1", "min-replicas-max-lag 2")


def check(traffic: Traffic, servers: Servers, daemon: DaemonProcess) -> None:
    """Check the account of all events, and print it."""
    traffic.stop()
    account, result = traffic.account, audit(servers, traffic.account)
    print(f"\n{table(traffic.events)}")
    print(
        f"{account.mails} mails, {len(account.acknowledged)} lessons acknowledged after "
        f"{len(account.lesson_refusals)} refusals, {len(account.entries)} stream entries; in Redis "
        f"{result.entries} ledger entries, {result.records} records of history, {len(result.lost)} lessons lost"
    )
    assert account.mails_refused == []
    assert result.lost == []
    assert result.is_exact
    assert result.entries == result.records == len(account.acknowledged)
    wait_until(lambda: stream_answers(servers) >= set(account.entries), 120)
    assert daemon.metric('nbstream_filter_failures_total{reason="store"}') == 0
    wait_until(lambda: daemon.get("/readyz") == (200, '{"ready":true,"degraded":{}}'))


def kill_primary(traffic: Traffic, servers: SentinelSet, number: int) -> None:
    old = servers.primary()
    with traffic.event(f"primary killed, and back ({number})"):
        old.kill()
        servers.wait_for_new_primary(old)
        traffic.wait_for_lessons(1)
        old.start()
        servers.wait_until_whole()


def test_servers_under_sentinels_fail_and_nothing_acknowledged_is_lost(
    server_program: Path, tmp_path: Path
) -> None:
    with (
        Network() as network,
        SentinelSet(server_program, tmp_path / "set", network=network, lines=DURABLE) as servers,
        DaemonProcess(test_sentinel.write_settings(tmp_path, servers)) as daemon,
        Traffic(daemon, servers, stream=True) as traffic,
    ):
        traffic.wait_for_lessons(20)
        with traffic.event("nothing, for comparison"):
            traffic.wait_for_lessons(50)
        for number in range(KILLS):
            kill_primary(traffic, servers, number + 1)
        old = servers.primary()
        with traffic.event("primary stopped (SIGSTOP), and on"):
            old.stop()
            servers.wait_for_new_primary(old)
            traffic.wait_for_lessons(1)
            old.resume()
            servers.wait_until_whole()
        old = servers.primary()
        with traffic.event("primary isolated, and joined"):
            network.isolate({old.host})
            servers.wait_for_new_primary(old)
            traffic.wait_for_lessons(1)
            network.join()
            servers.wait_until_whole()
        old = servers.primary()
        with traffic.event("primary isolated with the daemon, and joined"):
            network.isolate({old.host, CLIENTS})
            servers.wait_for_new_primary(old)
            network.join()
            servers.wait_until_whole()
        with traffic.event("all sentinels restarted"):
            for sentinel in servers.sentinels:
                sentinel.terminate()
            for sentinel in servers.sentinels:
                sentinel.start()
            servers.wait_until_whole()
        with traffic.event("all sentinels and the primary killed, and back"):
            old = servers.primary()
            for server in (*servers.sentinels, old):
                server.kill()
            for server in (*servers.sentinels, old):
                server.start()
            servers.wait_until_whole()
        with traffic.event("one replica killed, and back"):
            (replica, _) = servers.replicas()
            replica.kill()
            traffic.wait_for_lessons(10)
            replica.start()
            servers.wait_until_whole()
        with traffic.event("all servers killed, and back"):
            for server in servers.servers:
                server.kill()
            for server in servers.servers:
                server.start()
            servers.wait_until_whole()
        check(traffic, servers, daemon)


def test_nodes_of_a_cluster_fail_and_a_live_model_moves(server_program: Path, tmp_path: Path) -> None:
    with (
        Network() as network,
        ClusterSet(
            server_program, tmp_path / "cluster", network=network, lines=("appendfsync always",)
        ) as cluster,
        DaemonProcess(test_cluster.write_settings(tmp_path, cluster)) as daemon,
        Traffic(daemon, ModelServers(cluster), stream=True) as traffic,
    ):
        servers = ModelServers(cluster)
        traffic.wait_for_lessons(20)
        with traffic.event("nothing, for comparison"):
            traffic.wait_for_lessons(50)
        for number in range(KILLS // 4):
            old = servers.primary()
            with traffic.event(f"model's primary killed, and back ({number + 1})"):
                old.kill()
                cluster.wait_for_new_owner(servers.slot, old)
                old.start()
                cluster.wait_until_whole()
        old = servers.primary()
        with traffic.event("model's primary stopped (SIGSTOP), and on"):
            old.stop()
            cluster.wait_for_new_owner(servers.slot, old)
            old.resume()
            cluster.wait_until_whole()
        old = servers.primary()
        with traffic.event("model's primary isolated, and joined"):
            network.isolate({old.host})
            cluster.wait_for_new_owner(servers.slot, old)
            network.join()
            cluster.wait_until_whole()
        for number in range(3):
            with traffic.event(f"the slot moves to another primary ({number + 1})"):
                cluster.move_slot(servers.slot, servers.other_primary())
        with traffic.event("a node that does not hold the model killed"):
            other = servers.other_primary()
            other.kill()
            cluster.wait_until_whole()
            other.start()
            cluster.wait_until_whole()
        with traffic.event("all nodes killed, and back"):
            for node in cluster.nodes:
                node.kill()
            for node in cluster.nodes:
                node.start()
            cluster.wait_until_whole()
        check(traffic, servers, daemon)
