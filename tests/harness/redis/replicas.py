"""A primary and its replica, which a test promotes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from redis.asyncio import Redis

from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.daemon import free_port
from tests.harness.redis.redis_server import RedisServer
from tests.harness.waiting import until


@dataclass(frozen=True)
class Pair:
    """Two servers with a client each."""

    primary: RedisServer
    replica: RedisServer
    at_primary: Redis
    at_replica: Redis
    replica_port: int

    async def catch_up(self) -> None:
        """Return when the replica has all that the primary has acknowledged."""

        async def is_equal() -> bool:
            primary, replica = await self.at_primary.info("replication"), await self.at_replica.info("replication")
            return bool(primary["master_repl_offset"] == replica["slave_repl_offset"])

        await until(is_equal)

    async def promote(self) -> None:
        """The replica is on its own from here on: what the primary acknowledges now will be lost."""
        await self.at_replica.replicaof("NO", "ONE")

    async def demote(self) -> None:
        """The old primary follows the promoted replica, as a Sentinel would tell it to."""
        await self.at_primary.replicaof("127.0.0.1", str(self.replica_port))


@asynccontextmanager
async def replicated(primary: RedisServer, folder: Path) -> AsyncIterator[Pair]:
    """``primary``, started anew, and a replica that follows it."""
    port, replica_port = free_port(), free_port()
    primary.stop()
    primary.start("--port", str(port), "--repl-diskless-sync-delay", "0")
    folder.mkdir()
    replica = RedisServer(primary.binary, folder)
    replica.start("--port", str(replica_port), "--replicaof", "127.0.0.1", str(port))
    pair = Pair(
        primary,
        replica,
        open_client(ConnectionOptions(primary.url)),
        open_client(ConnectionOptions(replica.url)),
        replica_port,
    )
    try:
        await until(lambda: _follows(pair.at_replica))
        yield pair
    finally:
        await pair.at_primary.aclose()
        await pair.at_replica.aclose()
        replica.stop()


async def _follows(replica: Redis) -> bool:
    return bool((await replica.info("replication"))["master_link_status"] == "up")
