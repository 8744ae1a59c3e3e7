"""The connections of a process lead to one server, and leave it when another one is the primary."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import (
    AskError,
    BusyLoadingError,
    ClusterDownError,
    ExecAbortError,
    MasterDownError,
    MovedError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from nbstream.errors import StoreNotPrimary, StoreRefuses, StoreUnavailable
from nbstream.store.connection import ConnectionOptions, Primary, ServerGuard, look_for_primary, open_client
from nbstream.store.embedded import find_servers
from nbstream.store.model.ledger import LedgerEntry
from nbstream.store.model.model import Model
from nbstream.store.redis_errors import loss_reason, store_error
from tests.harness.lessons import NOTE
from tests.harness.redis.moving_address import MovingAddress, moving_address
from tests.harness.redis.redis_server import RedisServer


def entry(version: str) -> LedgerEntry:
    return LedgerEntry(version, "spam", 1000, (b"body:x",), 1.5, "test", "nobody", 0.25)


@pytest.fixture
async def address(own_redis: RedisServer, tmp_path: Path) -> AsyncIterator[MovingAddress]:
    async with moving_address(own_redis, tmp_path) as moving:
        yield moving


class Losses(list[str]):
    """The reasons for which connections were dropped."""


@pytest.mark.parametrize("server", find_servers(), ids=lambda path: path.parent.as_posix())
async def test_a_lesson_that_a_demoted_server_refuses_succeeds_when_it_is_tried_again(
    server: Path, tmp_path: Path
) -> None:
    """Redis 6.2 puts the refusal into the error of the script, later versions answer READONLY."""
    folder, losses = tmp_path / "primary", Losses()
    folder.mkdir()
    redis = RedisServer(server, folder)
    redis.start()
    try:
        async with moving_address(redis, tmp_path) as address:
            client = open_client(ConnectionOptions(address.url), primary=Primary(losses.append))
            model = Model(client, "test", 3600)
            await model.open()
            await model.commit_lesson("m1", None, entry("v1"), NOTE)

            await address.fail_over()
            with pytest.raises(StoreNotPrimary):
                await model.commit_lesson("m2", None, entry("v2"), NOTE)
            assert refused(model)
            assert isinstance(await model.commit_lesson("m2", None, entry("v2"), NOTE), bytes)

            assert not refused(model)
            assert losses == ["readonly", "other_server"]
            assert (await model.totals()).messages == (0, 2)
            await client.aclose()
    finally:
        redis.stop()


async def test_one_refusal_drops_the_idle_connections_of_all_clients_of_the_primary(
    address: MovingAddress,
) -> None:
    primary = Primary()
    writer = open_client(ConnectionOptions(address.url), primary=primary)
    reader = open_client(ConnectionOptions(address.url), primary=primary)
    await reader.ping()
    old_server = await server_port(reader)
    await writer.ping()

    await address.fail_over()
    with pytest.raises(ReadOnlyError):
        await writer.set("a", "b")

    assert await server_port(reader) != old_server
    await writer.aclose()
    await reader.aclose()


async def test_a_connection_in_use_is_closed_when_its_command_ends(address: MovingAddress) -> None:
    client = open_client(ConnectionOptions(address.url))
    pool = client.connection_pool
    busy = await pool.get_connection()  # type: ignore[no-untyped-call]  # redis-py has no type here
    await address.fail_over()
    assert await client.set("a", "b"), "a second connection, which reaches the promoted server"

    await pool.release(busy)

    assert not busy.is_connected
    await client.aclose()


async def test_a_watch_sees_that_the_address_has_moved_without_any_command(address: MovingAddress) -> None:
    losses = Losses()
    client = open_client(ConnectionOptions(address.url), primary=Primary(losses.append))
    old_server = await server_port(client)
    address.proxy.target = address.pair.replica.socket
    assert await server_port(client) == old_server, "the open connection stays"

    await look_for_primary(client)

    assert losses == ["other_server"]
    assert await server_port(client) != old_server
    await client.aclose()


async def test_a_watch_sees_a_demotion_and_a_promotion_without_any_command(address: MovingAddress) -> None:
    primary = Primary()
    client = open_client(ConnectionOptions(address.url), primary=primary)
    await look_for_primary(client)
    assert not at_replica(primary)

    await address.pair.promote()
    await address.pair.demote()
    await look_for_primary(client)
    assert at_replica(primary)

    address.proxy.target = address.pair.replica.socket
    await look_for_primary(client)
    assert not at_replica(primary)
    await client.aclose()


async def test_a_scan_that_reaches_another_server_in_its_middle_is_refused(address: MovingAddress) -> None:
    client = open_client(ConnectionOptions(address.url))
    guard = ServerGuard(client)
    await client.ping()
    guard.check()

    address.proxy.target = address.pair.replica.socket
    address.proxy.cut()
    await client.ping()

    with pytest.raises(StoreUnavailable, match="another Redis server answers"):
        guard.check()
    await client.aclose()


async def test_a_connection_that_breaks_and_reaches_the_same_server_disturbs_nobody(
    own_redis: RedisServer,
) -> None:
    losses = Losses()
    client = open_client(ConnectionOptions(own_redis.url), primary=Primary(losses.append))
    guard = ServerGuard(client)
    await client.client_kill_filter(skipme=False, _type="normal")
    await client.ping()

    guard.check()
    assert losses == []
    await client.aclose()


async def test_a_restarted_server_is_another_server(own_redis: RedisServer) -> None:
    """Its cursors are others: a scan that goes on after the restart would miss fields."""
    client = open_client(ConnectionOptions(own_redis.url))
    guard = ServerGuard(client)
    await client.ping()

    own_redis.stop()
    own_redis.start()
    await client.ping()

    with pytest.raises(StoreUnavailable):
        guard.check()
    await client.aclose()


ERRORS: list[tuple[RedisError, str | None, type[StoreUnavailable]]] = [
    (ReadOnlyError("You can't write against a read only replica."), "readonly", StoreNotPrimary),
    (
        ResponseError("Error running script (call to f_1): @user_script:1: -READONLY You can't write against"),
        "readonly",
        StoreNotPrimary,
    ),
    (MovedError("3999 127.0.0.1:6381"), "moved", StoreNotPrimary),
    (ExecAbortError("Transaction discarded because of: MOVED 1 127.0.0.1:1"), "moved", StoreNotPrimary),
    (AskError("3999 127.0.0.1:6381"), "ask", StoreNotPrimary),
    (TryAgainError("Multiple keys request during rehashing of slot"), "tryagain", StoreNotPrimary),
    (ClusterDownError("The cluster is down"), "clusterdown", StoreNotPrimary),
    (MasterDownError("Link with MASTER is down"), "masterdown", StoreNotPrimary),
    (ResponseError("UNBLOCKED force unblock from blocking operation"), "unblocked", StoreNotPrimary),
    (BusyLoadingError("Redis is loading the dataset in memory"), "loading", StoreUnavailable),
    (ResponseError("NOREPLICAS Not enough good replicas to write."), "noreplicas", StoreRefuses),
    (OutOfMemoryError("command not allowed when used memory > 'maxmemory'."), None, StoreRefuses),
    (ResponseError("unknown command 'MOVED'"), None, StoreUnavailable),
]


@pytest.mark.parametrize(("error", "reason", "kind"), ERRORS, ids=lambda value: str(value)[:40])
def test_each_reply_means_what_it_says(
    error: RedisError, reason: str | None, kind: type[StoreUnavailable]
) -> None:
    assert loss_reason(error) == reason
    assert type(store_error(error)) is kind


def at_replica(primary: Primary) -> bool:
    return primary.is_replica


def refused(model: Model) -> bool:
    return model.last_refusal is not None


async def server_port(client: Redis) -> int:
    info = await client.info("server")
    return int(info["tcp_port"])


async def test_more_commands_than_connections_wait_for_a_connection_and_are_all_answered(
    own_redis: RedisServer,
) -> None:
    async with open_client(ConnectionOptions(own_redis.url)) as client:
        counts = await asyncio.gather(*(client.incr("n") for _ in range(200)))

        assert sorted(counts) == list(range(1, 201))
        assert len(await client.client_list()) <= 32


@pytest.mark.parametrize("is_connected", [True, False])
async def test_a_command_that_is_cancelled_at_any_moment_ends_so_and_leaves_its_reply_to_nobody(
    own_redis: RedisServer, is_connected: bool
) -> None:
    async with open_client(ConnectionOptions(own_redis.url)) as client:
        turns = 0
        while turns < 10_000:
            assert await client.echo(f"before {turns}") == f"before {turns}".encode()
            if not is_connected:
                await client.connection_pool.disconnect()
            command = asyncio.ensure_future(client.echo("cancelled"))
            for _ in range(turns):
                await asyncio.sleep(0)
            if command.done():
                break
            command.cancel()
            with pytest.raises(asyncio.CancelledError):
                await command
            turns += 1

        assert turns > 2
        assert await command == b"cancelled"
