"""Three servers under three sentinels, and their faults.

Rules: the sentinels decide who is the primary, and the daemons ask them. One fault is over before the next one
begins, so that there is always a majority; afterwards all servers run, and the replicas follow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis

from nbstream.store.connection import ConnectionOptions, SentinelNodes, open_client
from tests.harness.redis.network import Network
from tests.harness.redis.sentinel_set import SERVICE, SentinelSet
from tests.harness.redis.server_process import ServerProcess
from tests.soak.chaos.faults import Actions
from tests.soak.chaos.schedule import Event, Kind


class SentinelServers:
    """The set, used from the loop: what waits runs in threads.

    ``wait_replicas`` is how many replicas must have what is acknowledged.
    """

    def __init__(self, servers: SentinelSet, network: Network, wait_replicas: int) -> None:
        self.set = servers
        self.network = network
        self.wait_replicas = wait_replicas

    def setting(self, host: str) -> str:
        """Return the setting ``redis`` of a host, the same for all."""
        sentinels = ", ".join(self.set.addresses)
        waiting = f"wait_replicas: {self.wait_replicas}, timeout_seconds: 2"
        return f"{{sentinels: [{sentinels}], service: {SERVICE}, {waiting}}}"

    def client(self, name: str) -> Redis:
        """Return a client of the primary of the moment."""
        addresses = tuple((sentinel.host, sentinel.public_port) for sentinel in self.set.sentinels)
        options = ConnectionOptions(SentinelNodes(addresses, SERVICE), timeout_seconds=2.0)
        return open_client(options, retries=0)

    async def wait_until_ready(self) -> None:
        """Return once all servers follow one primary, and the sentinels agree."""
        await asyncio.to_thread(self.set.wait_until_whole)


class SentinelFaults:
    """The faults of the set."""

    def __init__(self, servers: SentinelServers) -> None:
        self._servers = servers
        self._set = servers.set

    @property
    def actions(self) -> Actions:
        return {
            Kind.KILL_SENTINEL_PRIMARY: self._kill_primary,
            Kind.STOP_SENTINEL_PRIMARY: self._stop_primary,
            Kind.PARTITION_SENTINEL_PRIMARY: self._partition_primary,
            Kind.KILL_SENTINEL_REPLICA: self._kill_replica,
            Kind.KILL_SENTINEL: self._kill_sentinel,
            Kind.STOP_SENTINEL: self._stop_sentinel,
            Kind.KILL_ALL_SENTINELS: self._kill_all_sentinels,
        }

    async def _kill_primary(self, event: Event) -> None:
        primary = await asyncio.to_thread(self._set.primary)
        await self._restart([primary], event.seconds)

    async def _stop_primary(self, event: Event) -> None:
        await self._stop(await asyncio.to_thread(self._set.primary), event.seconds)

    async def _partition_primary(self, event: Event) -> None:
        """Cut the primary off from the other servers, from two sentinels, and from all clients."""
        primary = await asyncio.to_thread(self._set.primary)
        await asyncio.to_thread(self._servers.network.isolate, [primary.host])
        await asyncio.sleep(event.seconds)
        await asyncio.to_thread(self._servers.network.join)
        await self._servers.wait_until_ready()

    async def _kill_replica(self, event: Event) -> None:
        replicas = await asyncio.to_thread(self._set.replicas)
        await self._restart([replicas[event.draw % len(replicas)]], event.seconds)

    async def _kill_sentinel(self, event: Event) -> None:
        await self._restart([self._sentinel(event)], event.seconds)

    async def _stop_sentinel(self, event: Event) -> None:
        await self._stop(self._sentinel(event), event.seconds)

    async def _kill_all_sentinels(self, event: Event) -> None:
        await self._restart(self._set.sentinels, event.seconds)

    def _sentinel(self, event: Event) -> ServerProcess:
        return self._set.sentinels[event.draw % len(self._set.sentinels)]

    async def _restart(self, servers: Sequence[ServerProcess], seconds: float) -> None:
        for server in servers:
            await asyncio.to_thread(server.kill)
        await asyncio.sleep(seconds)
        for server in servers:
            await asyncio.to_thread(server.start)
        await self._servers.wait_until_ready()

    async def _stop(self, server: ServerProcess, seconds: float) -> None:
        await asyncio.to_thread(server.stop)
        await asyncio.sleep(seconds)
        await asyncio.to_thread(server.resume)
        await self._servers.wait_until_ready()


@asynccontextmanager
async def running_sentinels(binary: Path, folder: Path, wait_replicas: int) -> AsyncIterator[SentinelServers]:
    """Start the servers, the sentinels and the network between them."""
    with Network() as network:
        servers = SentinelSet(binary, folder / "sentinels", network=network, lines=["appendfsync always"])
        await asyncio.to_thread(servers.__enter__)
        try:
            yield SentinelServers(servers, network, wait_replicas)
        finally:
            await asyncio.to_thread(servers.__exit__)
