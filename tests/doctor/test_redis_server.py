"""Redis: real servers, each with something that is wrong."""

from __future__ import annotations

import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from redis.asyncio import Redis

from nbstream.daemon.status import DaemonStatus
from nbstream.doctor import redis_server
from nbstream.doctor.model import examine_model
from nbstream.doctor.redis_server import examine_redis
from nbstream.findings import Finding
from nbstream.store.connection import ConnectionOptions, durability, open_client
from tests.harness.daemon import free_port
from tests.harness.examined_sites import kind_names, make_site, the, wrong
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until


async def examine(url: str, folder: Path, settings: str = "") -> list[Finding]:
    return list(await examine_redis(make_site(folder, f"redis: {{url: '{url}'{settings}}}\n")))


@asynccontextmanager
async def client_of(server: RedisServer) -> AsyncIterator[Redis]:
    client = open_client(ConnectionOptions(server.url))
    try:
        yield client
    finally:
        await client.aclose()


async def test_a_server_that_keeps_all_and_has_room_is_fine(own_redis: RedisServer, tmp_path: Path) -> None:
    async with client_of(own_redis) as client:
        await client.config_set("appendfsync", "always")
        await client.config_set("appendonly", "yes")

    found = await examine(own_redis.url, tmp_path)

    assert wrong(found) == []
    assert kind_names(found) == {
        "redis_server.REACHABLE",
        "redis_server.MEMORY",
        "redis_server.DURABLE",
    }


async def test_a_server_that_is_away_is_a_problem(own_redis: RedisServer, tmp_path: Path) -> None:
    own_redis.stop()

    (finding,) = await examine(own_redis.url, tmp_path)

    assert finding == the([finding], redis_server.UNREACHABLE)
    assert not finding.what.endswith("..")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
async def test_an_embedded_server_is_for_the_user_of_the_daemon(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    os.chown(tmp_path / "state", 65534, 65534)

    the(await examine_redis(make_site(tmp_path, daemon=DaemonStatus(2**22 + 1))), redis_server.OF_DAEMON)


async def test_what_a_server_may_lose_is_said(own_redis: RedisServer, tmp_path: Path) -> None:
    the(await examine(own_redis.url, tmp_path), durability.NO_PERSISTENCE)
    async with client_of(own_redis) as client:
        await client.config_set("save", "3600 1")
        the(await examine(own_redis.url, tmp_path), durability.SNAPSHOTS_ONLY)
        await client.config_set("appendonly", "yes")
        await client.config_set("maxmemory-policy", "allkeys-lru")
        found = await examine(own_redis.url, tmp_path)
    assert "everysec" in the(found, durability.SYNCED_LATE).what
    assert "allkeys-lru" in the(found, durability.EVICTION).what


async def test_a_server_that_hides_its_settings_is_to_be_looked_at(own_redis: RedisServer, tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    async with client_of(own_redis) as client:
        await client.acl_setuser(
            "nb",
            enabled=True,
            passwords=["+secret"],
            keys=["*"],
            channels=["*"],
            categories=["+@all"],
            commands=["-config"],
        )

    found = await examine(own_redis.url, tmp_path, f", user: nb, password_file: {password}")

    the(found, durability.UNKNOWN)


async def test_a_default_user_who_may_not_read_the_file_again_is_a_problem(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    password = tmp_path / "password"
    password.write_text("secret")
    settings = f", user: nb, password_file: {password}"
    with redis.Redis(unix_socket_path=str(own_redis.socket)) as client:
        client.config_set("appendonly", "yes")
        client.execute_command("ACL", "SETUSER", "nb", "on", ">secret", "~*", "&*", "+@all")
    with redis.Redis(unix_socket_path=str(own_redis.socket), username="nb", password="secret") as client:
        client.execute_command("ACL", "SETUSER", "default", "reset")

        the(await examine(own_redis.url, tmp_path, settings), durability.REPLAY_REFUSED)

        client.execute_command("ACL", "SETUSER", "nb", "-acl|dryrun")
        the(await examine(own_redis.url, tmp_path, settings), durability.REPLAY_UNKNOWN)


async def test_the_user_of_the_handbook_may_do_all_that_is_asked(own_redis: RedisServer, tmp_path: Path) -> None:
    conf = (Path(__file__).parents[2] / "deploy" / "redis" / "redis.conf").read_text()
    (line,) = [line for line in conf.splitlines() if line.startswith("user nbstream ")]
    password = tmp_path / "password"
    password.write_text("CHANGE-NBSTREAM")
    with redis.Redis(unix_socket_path=str(own_redis.socket)) as client:
        client.execute_command("ACL", "SETUSER", *line.split()[1:])
    settings = f"redis: {{url: '{own_redis.url}', user: nbstream, password_file: {password}}}\n"

    found = await examine_redis(make_site(tmp_path, settings))
    of_model = await examine_model(make_site(tmp_path, settings))

    assert "redis_server.REACHABLE" in kind_names(found), found
    assert "redis_server.MEMORY" in kind_names(found), found
    assert "model_lookups.LEARNING" in kind_names(of_model), of_model


async def test_memory_that_runs_out_is_a_warning_and_then_a_problem(
    own_redis: RedisServer, tmp_path: Path
) -> None:
    async with client_of(own_redis) as client:
        await client.setrange("large", 20_000_000, "x")
        used = (await client.info("memory"))["used_memory"]
        await client.config_set("maxmemory", int(used / 0.87))
        the(await examine(own_redis.url, tmp_path), redis_server.MEMORY_SHORT)
        await client.config_set("maxmemory", used)
        the(await examine(own_redis.url, tmp_path), redis_server.MEMORY_FULL)


async def test_a_disk_that_failed_is_a_problem(redis_binary: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    server = RedisServer(redis_binary, tmp_path)
    server.start("--dir", str(data))
    try:
        async with client_of(server) as client:
            shutil.rmtree(data)
            await client.bgsave()

            async def has_failed() -> bool:
                return bool((await client.info("persistence"))["rdb_last_bgsave_status"] == "err")

            await until(has_failed)
            found = await examine(server.url, tmp_path)
    finally:
        server.stop()
    assert "rdb_last_bgsave_status" in the(found, redis_server.WRITE_FAILED).what


async def test_a_replica_takes_no_lessons(own_redis: RedisServer, tmp_path: Path) -> None:
    async with client_of(own_redis) as client:
        await client.replicaof("127.0.0.1", free_port())

    found = await examine(own_redis.url, tmp_path)

    the(found, redis_server.REPLICA)


async def test_missing_replicas_are_a_problem_until_they_follow(redis_binary: Path, tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "replica").mkdir()
    primary, replica = RedisServer(redis_binary, tmp_path), RedisServer(redis_binary, tmp_path / "replica")
    primary.start("--port", str(port), "--repl-diskless-sync-delay", "0")
    try:
        by_nbstream = the(
            await examine(primary.url, tmp_path, ", wait_replicas: 1"), redis_server.TOO_FEW_REPLICAS
        )
        async with client_of(primary) as client:
            await client.config_set("min-replicas-to-write", 1)
            by_redis = the(await examine(primary.url, tmp_path), redis_server.TOO_FEW_REPLICAS)
            replica.start("--replicaof", f"127.0.0.1 {port}")

            async def follows() -> bool:
                return (await client.info("replication")).get("min_slaves_good_slaves") == 1

            await until(follows)
            the(await examine(primary.url, tmp_path, ", wait_replicas: 1"), redis_server.REPLICAS)
    finally:
        replica.stop()
        primary.stop()
    assert "redis.wait_replicas" in by_nbstream.what
    assert "min-replicas-to-write" in by_redis.what
