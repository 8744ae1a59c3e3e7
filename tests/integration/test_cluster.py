"""The daemon with a cluster: a failover, and a slot that moves to another primary while its model is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbstream.listeners.stream.queue import CLAIM_SECONDS
from tests.harness.daemon import DaemonProcess, wait_until
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.server_process import ServerProcess
from tests.harness.traffic import IN, Traffic, audit, stream_answers


class ModelServers:
    """The cluster as the holder of one model, which is one slot."""

    def __init__(self, cluster: ClusterSet) -> None:
        self.cluster = cluster
        self.slot = cluster.slot(IN)

    def primary(self) -> ServerProcess:
        """Return the node that owns the model's slot."""
        return self.cluster.owner(self.slot)

    def other_primary(self) -> ServerProcess:
        """Return a node that owns other slots."""
        owners = {self.cluster.owner(slot).address: self.cluster.owner(slot) for slot in (0, 8000, 16_000)}
        return next(owner for owner in owners.values() if owner is not self.primary())


def write_settings(folder: Path, cluster: ClusterSet, redis: str = "wait_replicas: 1") -> Path:
    """Write settings that name the nodes."""
    file = folder / "nbstream.yaml"
    file.write_text(
        f"state_dir: {folder / 'state'}\n"
        f"redis: {{cluster: [{', '.join(cluster.addresses)}], timeout_seconds: 2, {redis}}}\n"
        "listeners: {smtp: {listen: 127.0.0.1:0}, http: {listen: 127.0.0.1:0}, stream: {}}\n"
        "log: {format: json}\n"
    )
    return file


def check_account(traffic: Traffic, servers: ModelServers, daemon: DaemonProcess) -> None:
    account, result = traffic.account, audit(servers, traffic.account)
    assert account.mails_refused == []
    assert result.lost == []
    assert result.is_exact
    assert result.entries == result.records == len(account.acknowledged)
    wait_until(lambda: stream_answers(servers) >= set(account.entries), 3 * CLAIM_SECONDS)
    assert daemon.metric('nbstream_filter_failures_total{reason="store"}') == 0
    wait_until(lambda: daemon.get("/readyz") == (200, '{"ready":true,"degraded":{}}'))


@pytest.mark.soak
def test_a_failover_under_mail_lessons_and_stream_entries_loses_nothing(
    server_program: Path, tmp_path: Path
) -> None:
    with (
        ClusterSet(server_program, tmp_path / "cluster") as cluster,
        DaemonProcess(write_settings(tmp_path, cluster)) as daemon,
        Traffic(daemon, ModelServers(cluster), stream=True) as traffic,
    ):
        servers = ModelServers(cluster)
        traffic.wait_for_lessons(20)
        old = servers.primary()
        with traffic.event("the model's primary is killed"):
            old.kill()
            cluster.wait_for_new_owner(servers.slot, old)
            old.start()  # lessons wait for a replica
            cluster.wait_until_whole()
        traffic.stop()

        assert traffic.account.lesson_refusals != []
        check_account(traffic, servers, daemon)


@pytest.mark.soak
def test_a_model_moves_to_another_primary_while_it_is_used(server_program: Path, tmp_path: Path) -> None:
    with (
        ClusterSet(server_program, tmp_path / "cluster") as cluster,
        DaemonProcess(write_settings(tmp_path, cluster)) as daemon,
        Traffic(daemon, ModelServers(cluster), stream=True) as traffic,
    ):
        servers = ModelServers(cluster)
        traffic.wait_for_lessons(20)
        target = servers.other_primary()
        with traffic.event("the slot moves"):
            cluster.move_slot(servers.slot, target)
        assert servers.primary() is target
        traffic.stop()

        check_account(traffic, servers, daemon)
