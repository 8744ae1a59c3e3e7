"""Own models on a cluster of three primaries: they are spread, and each primary fails for its own models alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.errors import StoreUnavailable
from nbstream.filter import FeedbackOutcome, OwnModelUse
from nbstream.filter.own_models.index import OwnModelIndex, OwnModelKeys
from nbstream.policy.own_models.names import bucket_of
from nbstream.store.connection import ClusterNodes, ConnectionOptions, open_client
from nbstream.store.model.scan import scan_keys
from tests.filter.own_models.test_filters import letter, news
from tests.harness.own_model_site import Site, open_site, own_model
from tests.harness.redis.cluster_set import ClusterSet
from tests.harness.redis.server_process import ServerProcess
from tests.harness.waiting import until

USERS = [f"user{number}@example.org" for number in range(40)]


@pytest.fixture
def cluster(server_program: Path, tmp_path: Path) -> Iterator[ClusterSet]:
    with ClusterSet(server_program, tmp_path / "cluster") as running:
        yield running


@pytest.fixture
async def cluster_client(cluster: ClusterSet) -> AsyncIterator[Redis]:
    nodes = ClusterNodes(tuple((node.host, node.port) for node in cluster.nodes[:2]))
    client = open_client(ConnectionOptions(nodes, timeout_seconds=1, model="test"))
    yield client
    await client.aclose()


class Primaries:
    """Which primary has what."""

    def __init__(self, cluster: ClusterSet) -> None:
        of_buckets = {bucket_of(user): OwnModelKeys("test", user).totals for user in USERS}
        owners = {bucket: cluster.owner(cluster.slot(key)) for bucket, key in of_buckets.items()}
        self.of_users = {user: owners[bucket_of(user)] for user in USERS}
        common = cluster.owner(cluster.slot("{test}"))
        self.without_common = next(owner for owner in owners.values() if owner is not common)

    def users(self, primary: ServerProcess, *, on_it: bool) -> Sequence[str]:
        return [user for user in USERS if (self.of_users[user] is primary) == on_it]


async def teach(site: Site, user: str, number: int) -> bool:
    """Teach a user's model a message, and return whether that was acknowledged."""
    try:
        result = await (await site.filters.for_user(user)).learn(news(number), "ham", "test")
    except StoreUnavailable:
        return False
    return result.outcome in {FeedbackOutcome.LEARNED, FeedbackOutcome.ALREADY}


async def counts_and_ledger(client: Redis, user: str) -> tuple[int, int]:
    """Return how many messages the counts of a user have, and how many entries the ledger."""
    model = own_model(client, user)
    pattern = model.keys.ledger_pattern
    entries = [key async for keys in scan_keys(model.client, pattern) for key in keys]
    return sum((await model.totals()).messages), len(entries)


async def test_models_on_all_primaries_are_taught_followed_listed_and_removed(
    cluster: ClusterSet, cluster_client: Redis
) -> None:
    primaries = Primaries(cluster)
    assert len({primary.port for primary in primaries.of_users.values()}) == 3
    async with open_site(cluster_client, "{address}") as site, open_site(cluster_client, "{address}") as other:
        for user in USERS:
            assert await teach(site, user, 1)
            before = await own_model(cluster_client, user).totals()
            own = await site.filters.for_user(user)
            await own.learn(letter(1), "spam", "test")
            await own.unlearn(letter(1), "test")

            assert await own_model(cluster_client, user).totals() == before
            assert await counts_and_ledger(cluster_client, user) == (1, 1)
            assert await teach(other, user, 2)
        for user in USERS:
            last = (await own_model(cluster_client, user).position()).change.stream_id
            counts = await site.models.load(user)
            await counts.wait_until_applied(last)
            assert counts.totals == await own_model(cluster_client, user).totals()

        index = OwnModelIndex(cluster_client, "test")
        listed = {model.name: sum(model.totals.messages) async for model in index.models()}
        assert listed == dict.fromkeys(USERS, 2)
        await index.remove(USERS[1:])

        assert await index.names() == USERS[:1]
        assert await counts_and_ledger(cluster_client, USERS[0]) == (2, 2)
        left = [key for node in cluster.nodes[:3] for key in _keys(node) if b"@" in key]
        assert {key.split(b":")[2] for key in left} == {USERS[0].encode()}
        await until(lambda: site.models.untaught(USERS[1]) is not None)


def _keys(node: ServerProcess) -> list[bytes]:
    found = node.ask("KEYS", "nbstream:{test/*")
    assert isinstance(found, list)
    return found


async def test_while_a_primary_is_gone_the_models_of_others_go_on_until_it_is_back(
    cluster: ClusterSet, cluster_client: Redis
) -> None:
    primaries = Primaries(cluster)
    killed = primaries.without_common
    theirs, others = primaries.users(killed, on_it=True), primaries.users(killed, on_it=False)
    async with open_site(cluster_client, "{address}") as site:
        for user in USERS:
            assert await teach(site, user, 1)
        first, second = theirs[:2]
        in_memory = site.models.find_former(first)
        site.models.drop(second)
        cluster.replica_of(killed).kill()

        killed.kill()

        await until(lambda: site.models.find(first) is None)
        assert (await site.filter_of(first)).parts.counts is in_memory, "former counts serve mail"
        assert (await (await site.filter_of(second)).check(news(3))).own is OwnModelUse.UNAVAILABLE
        assert not await teach(site, first, 2)
        for user in others:
            assert await teach(site, user, 2)
            assert site.models.find(user)
        await asyncio.to_thread(killed.start)
        await teach_all_again(site, cluster_client, theirs)


async def test_a_promoted_replica_has_all_lessons_of_its_models(
    cluster: ClusterSet, cluster_client: Redis
) -> None:
    primaries = Primaries(cluster)
    killed = primaries.without_common
    async with open_site(cluster_client, "{address}") as site:
        for user in USERS:
            assert await teach(site, user, 1)
        replica = cluster.replica_of(killed)
        # What it does not have is lost with its primary.
        end = int(killed.info("replication")["master_repl_offset"])
        await until(lambda: int(replica.info("replication")["slave_repl_offset"]) >= end)

        killed.kill()

        for user in primaries.users(killed, on_it=False):
            assert await teach(site, user, 2)
        await teach_all_again(site, cluster_client, primaries.users(killed, on_it=True))


async def teach_all_again(site: Site, client: Redis, waiting: Sequence[str]) -> None:
    """Teach those who are waiting for a primary, and check that all users have two lessons."""
    for user in waiting:
        await until(partial(teach, site, user, 2))
    for user in USERS:
        assert await counts_and_ledger(client, user) == (2, 2)
        last = (await own_model(client, user).position()).change.stream_id
        counts = await site.models.load(user)
        await counts.wait_until_applied(last)
        assert counts.totals == await own_model(client, user).totals()
