"""The primary is found through Sentinels and through the nodes of a cluster, and again after each failover."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nbstream.bayes.columns import CLASSES
from nbstream.errors import StoreForbids, StoreNotPrimary, StoreUnavailable
from nbstream.store.connection import (
    ClusterNodes,
    ConnectionOptions,
    SentinelNodes,
    TlsOptions,
    look_for_primary,
    open_client,
    open_primary,
)
from nbstream.store.connection.locators import ClusterNode
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.follower.follower import Follower
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from tests.harness.daemon import wait_until
from tests.harness.lessons import NOTE
from tests.harness.redis.access import Access, Certificates
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.sentinel_set import SERVICE, SentinelSet
from tests.harness.redis.server_process import ServerProcess
from tests.harness.waiting import until


def entry(number: int) -> LedgerEntry:
    return LedgerEntry(f"v{number}", "spam", 1000, (b"body:x", b"body:%d" % number), 1.5, "test", "nobody", 0.25)


def addresses(servers: list[ServerProcess]) -> tuple[tuple[str, int], ...]:
    return tuple((server.host, server.port) for server in servers)


def sentinel_options(servers: SentinelSet, service: str = SERVICE) -> ConnectionOptions:
    nodes = SentinelNodes(addresses(servers.sentinels), service)
    return ConnectionOptions(nodes, timeout_seconds=1, model="test")


def cluster_options(cluster: ClusterSet, model: str = "test") -> ConnectionOptions:
    return ConnectionOptions(ClusterNodes(addresses(cluster.nodes[:2])), timeout_seconds=1, model=model)


def spam_messages(server: ServerProcess) -> object:
    return server.ask("HGET", "nbstream:{test}:totals", "messages:spam")


async def teach(model: Model, number: int) -> bool:
    """Whether the lesson was taken now; if not, it may be tried again."""
    try:
        return isinstance(await model.commit_lesson(f"m{number}", None, entry(number), NOTE), bytes)
    except StoreUnavailable:
        return False


@pytest.fixture
def servers(server_program: Path, tmp_path: Path) -> Iterator[SentinelSet]:
    with SentinelSet(server_program, tmp_path / "set") as running:
        yield running


@pytest.fixture
def cluster(server_program: Path, tmp_path: Path) -> Iterator[ClusterSet]:
    with ClusterSet(server_program, tmp_path / "cluster") as running:
        yield running


async def test_lessons_go_to_the_primary_and_after_its_death_to_the_promoted_replica(servers: SentinelSet) -> None:
    options = sentinel_options(servers)
    async with open_client(options) as client:
        model = await Model(client, "test", 3600).open()
        assert await teach(model, 1)
        old = servers.primary()
        for server in (old, *servers.replicas()):  # what no replica has is lost with the primary
            wait_until(lambda server=server: spam_messages(server) == b"1")

        old.kill()
        await until(lambda: teach(model, 2), 60)

        new = servers.wait_for_new_primary(old)
        assert spam_messages(new) == b"2"
        assert (await model.totals()).messages == (0, 2)


async def test_a_watch_leaves_a_primary_that_was_replaced_and_still_runs(servers: SentinelSet) -> None:
    losses: list[str] = []
    options = sentinel_options(servers)
    primary = open_primary(options, losses.append)
    async with open_client(options, primary=primary) as client:
        model = await Model(client, "test", 3600).open()
        old = servers.primary()
        old.stop()
        servers.wait_for_new_primary(old)

        await look_for_primary(client)

        assert losses == ["other_server"]
        assert await teach(model, 1)
        old.resume()


async def test_users_passwords_and_certificates_hold_for_servers_and_sentinels(
    tls_server_program: Path, tmp_path: Path, program: Callable[[str], str]
) -> None:
    certificates = Certificates.make(program("openssl"), tmp_path)
    access = Access(
        "secret",
        certificates,
        users=("teacher on >lesson ~nbstream:* +@all",),
        sentinel_users=("teacher on >lesson +sentinel +hello +auth",),
    )
    tls = TlsOptions(str(certificates.authority), str(certificates.certificate), str(certificates.key))
    with SentinelSet(tls_server_program, tmp_path / "set", access) as servers:
        nodes = SentinelNodes(addresses(servers.sentinels), SERVICE)
        right = ConnectionOptions(nodes, "lesson", 2, "test", "teacher", tls)
        async with open_client(right) as client:
            model = await Model(client, "test", 3600).open()
            assert await teach(model, 1)
            servers.primary().kill()
            await until(lambda: teach(model, 2), 60)
        async with open_client(ConnectionOptions(nodes, "wrong", 2, "test", "teacher", tls)) as client:
            with pytest.raises(StoreForbids, match=r"redis\.password_file"):
                await Model(client, "test", 3600).totals()
        untrusted = ConnectionOptions(nodes, "lesson", 2, "test", "teacher", TlsOptions())
        async with open_client(untrusted) as client:
            with pytest.raises(StoreUnavailable):
                await Model(client, "test", 3600).totals()


async def test_each_model_of_a_cluster_is_on_the_node_that_has_its_slot(cluster: ClusterSet) -> None:
    owners = set()
    for name in ("test", "other", "third", "fourth"):
        async with open_client(cluster_options(cluster, name)) as client:
            model = await Model(client, name, 3600).open()
            assert await teach(model, 1)
        owner = cluster.owner(cluster.slot(f"{{{name}}}"))
        assert owner.ask("HGET", f"nbstream:{{{name}}}:totals", "messages:spam") == b"1"
        owners.add(owner.address)
    assert len(owners) > 1, "models spread over the nodes"


async def test_the_model_is_found_at_the_replica_that_took_over(cluster: ClusterSet) -> None:
    async with open_client(cluster_options(cluster)) as client:
        model = await Model(client, "test", 3600).open()
        assert await teach(model, 1)
        old = cluster.owner(cluster.slot("{test}"))
        assert old.ask("WAIT", 1, 5000) == 1
        old.kill()

        await until(lambda: teach(model, 2), 60)

        assert (await model.totals()).messages == (0, 2)


async def test_a_model_whose_slot_moves_is_followed_and_nothing_is_read_in_part(cluster: ClusterSet) -> None:
    options = cluster_options(cluster)
    slot = cluster.slot("{test}")
    source = cluster.owner(slot)
    target = next(node for node in cluster.nodes[:3] if node is not source)
    losses: list[str] = []
    async with open_client(options, primary=open_primary(options, losses.append)) as client:
        model = await Model(client, "test", 3600).open()
        for number in range(150):
            assert await teach(model, number)

        cluster.begin_move(slot, target)
        cluster.move_keys(slot, source, target)
        with pytest.raises(StoreNotPrimary):
            await model.commit_lesson("m200", None, entry(200), NOTE)
        with pytest.raises(StoreUnavailable):
            [batch async for batch in model.ledger_tokens(CLASSES)]
        while cluster.move_keys(slot, source, target):
            pass
        cluster.end_move(slot, target)

        await until(lambda: teach(model, 200), 30)
        assert (await model.totals()).messages == (0, 151)
        assert len([tokens async for batch in model.ledger_tokens(CLASSES) for tokens in batch]) == 151
        assert {"ask", "tryagain", "moved"} & set(losses)


async def test_a_follower_follows_a_model_through_a_failover_of_the_cluster(cluster: ClusterSet) -> None:
    options = cluster_options(cluster)
    async with open_client(options) as client, open_client(options, retries=0) as following:
        model = await Model(client, "test", 3600).open()
        assert await teach(model, 1)
        followed = FollowedCounts(model)
        running = asyncio.create_task(Follower(following, [followed]).run())
        await asyncio.wait_for(followed.loaded.wait(), 10)
        old = cluster.owner(cluster.slot("{test}"))
        assert old.ask("WAIT", 1, 5000) == 1
        old.kill()
        await until(lambda: teach(model, 2), 60)

        await until(lambda: followed.totals is not None and followed.totals.messages == (0, 2), 30)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


ID = "07c37dfeb235213a872192d90877d0cd55635b91"


@pytest.mark.parametrize(
    ("line", "node"),
    [
        (
            f"{ID} 127.0.0.1:30004@31004,host4 slave {ID} 0 1426238317239 4 connected",
            ClusterNode(("127.0.0.1", 30004), frozenset({"slave"}), 4, (), frozenset()),
        ),
        (
            f"{ID} :30001@31001 myself,master - 0 0 1 connected 0-5460 7000 [93->-{ID}] [77-<-{ID}]",
            ClusterNode(
                ("asked", 30001),
                frozenset({"myself", "master"}),
                1,
                ((0, 5460), (7000, 7000)),
                frozenset({93, 77}),
            ),
        ),
        (
            f"{ID} ::1:30003@31003,,tls-port=0,shard-id={ID} master,fail - 1 2 3 disconnected 10923-16383",
            ClusterNode(("::1", 30003), frozenset({"master", "fail"}), 3, ((10923, 16383),), frozenset()),
        ),
    ],
)
def test_a_line_of_cluster_nodes_is_read_as_each_version_writes_it(line: str, node: ClusterNode) -> None:
    assert ClusterNode.parse(line, "asked") == node
    assert node.is_primary == ("master" in node.flags and "fail" not in node.flags)
