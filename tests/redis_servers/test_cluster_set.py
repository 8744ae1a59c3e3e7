"""The cluster does what the tests on it rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis.cluster import ClusterNode, RedisCluster
from redis.exceptions import MovedError, TryAgainError

from tests.integration.daemon import wait_until
from tests.redis_servers.access import Access, Certificates
from tests.redis_servers.cluster_set import ClusterSet
from tests.redis_servers.network import Network

KEY = "nbstream:{default}:key"


@pytest.fixture
def cluster(server_program: Path, tmp_path: Path) -> Iterator[ClusterSet]:
    with ClusterSet(server_program, tmp_path / "cluster") as running:
        yield running


def cluster_client(cluster: ClusterSet, **options: object) -> RedisCluster:
    """A client of redis-py that knows the slots."""
    nodes = [ClusterNode(node.host, node.public_port) for node in cluster.nodes]  # type: ignore[no-untyped-call]  # redis-py has no type here
    return RedisCluster(startup_nodes=nodes, socket_timeout=1.0, **options)  # type: ignore[arg-type]  # a mapping of many types


def test_the_replica_of_a_killed_primary_takes_its_slots(cluster: ClusterSet) -> None:
    slot = cluster.slot(KEY)
    old = cluster.owner(slot)
    replica = cluster.replica_of(old)
    with cluster_client(cluster) as client:
        client.set(KEY, "before")
        wait_until(lambda: client.get(KEY) == b"before")
        assert old.ask("WAIT", 1, 5000) == 1
        old.kill()

        assert cluster.wait_for_new_owner(slot, old) is replica

        wait_until(lambda: cluster.owner(slot) is replica)
        assert replica.ask("GET", KEY) == b"before"
    old.start()
    cluster.wait_until_whole()
    assert cluster.replica_of(replica) is old


def test_a_slot_moves_with_all_its_keys(cluster: ClusterSet) -> None:
    slot = cluster.slot(KEY)
    source = cluster.owner(slot)
    target = next(node for node in cluster.nodes[:3] if node is not source)
    for number in range(250):
        source.ask("SET", f"{KEY}{number}", number)

    assert cluster.move_slot(slot, target) == 250

    assert cluster.owner(slot) is target
    assert target.ask("CLUSTER", "COUNTKEYSINSLOT", slot) == 250
    with pytest.raises(MovedError):
        source.ask("GET", f"{KEY}0")


def test_a_script_is_refused_while_its_keys_are_on_both_sides(cluster: ClusterSet) -> None:
    slot = cluster.slot(KEY)
    source = cluster.owner(slot)
    target = next(node for node in cluster.nodes[:3] if node is not source)
    for number in range(150):
        source.ask("SET", f"{KEY}{number}", number)

    cluster.begin_move(slot, target)
    cluster.move_keys(slot, source, target)
    keys = [f"{KEY}{number}" for number in range(150)]
    with pytest.raises(TryAgainError):
        source.ask("EVAL", "return 1", len(keys), *keys)

    while cluster.move_keys(slot, source, target):
        pass
    cluster.end_move(slot, target)
    assert target.ask("EVAL", "return 1", len(keys), *keys) == 1


def test_a_node_that_is_isolated_is_replaced_and_follows_when_joined(server_program: Path, tmp_path: Path) -> None:
    with Network() as network, ClusterSet(server_program, tmp_path / "cluster", network=network) as cluster:
        slot = cluster.slot(KEY)
        old = cluster.owner(slot)
        replica = cluster.replica_of(old)
        network.isolate({old.host})

        assert cluster.wait_for_new_owner(slot, old) is replica

        network.join()
        cluster.wait_until_whole()
        assert cluster.owner(slot) is replica


def test_nodes_want_the_password_and_a_certificate(
    tls_server_program: Path, tmp_path: Path, program: Callable[[str], str]
) -> None:
    access = Access("secret", Certificates.make(program("openssl"), tmp_path))
    with ClusterSet(tls_server_program, tmp_path / "cluster", access) as cluster:
        with cluster_client(cluster, **access.client_options()) as client:
            assert client.set(KEY, "value")
        old = cluster.owner(cluster.slot(KEY))
        old.kill()
        cluster.wait_for_new_owner(cluster.slot(KEY), old)
