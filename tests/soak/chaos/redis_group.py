"""The Redis servers of a run: one primary, and its replicas where there are any.

Rules: every server writes everything to its disk before it answers. Clients reach the primary of the moment over
links, as over an address that moves: ``move`` leads new connections to another server, and leaves the open ones.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.daemon import free_port
from tests.harness.waiting import until
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.links import Link
from tests.soak.chaos.schedule import HOSTS
from tests.soak.chaos.services import Service

READY_SECONDS = 90.0
"""How long a server may take to recover, on a slow machine."""

DIRECT = "direct"
"""The link that no fault meets."""

_PAUSE_MILLISECONDS = 20_000


class RedisNode(Service):
    """One server; ``primary_port`` is the port of the primary that it follows, None for a primary."""

    def __init__(self, name: str, binary: Path, disk: Path, folder: Path, journal: Journal) -> None:
        super().__init__(name, self._arguments, folder / f"{name}.log", journal, _may_end_with)
        self.port = free_port()
        self.socket = folder / f"{name}.sock"
        self.primary_port: int | None = None
        self._binary = binary
        self._data = disk / name
        self._data.mkdir()
        self.client = open_client(ConnectionOptions(f"unix://{self.socket}", timeout_seconds=2.0), retries=0)

    def _arguments(self) -> Sequence[str | Path]:
        following = ["--replicaof", "127.0.0.1", str(self.primary_port)] if self.primary_port else []
        return [
            *(
                self._binary,
                "--bind",
                "127.0.0.1",
                "--port",
                str(self.port),
                "--unixsocket",
                self.socket,
                "--dir",
                self._data,
                "--save",
                "",
            ),
            *("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "8mb"),
            *("--repl-diskless-sync-delay", "0", *following),
        ]

    async def follow(self, primary: RedisNode | None) -> None:
        """Become a replica of ``primary``, or a primary. Raises what redis-py raises."""
        self.primary_port = primary.port if primary else None
        target = ("127.0.0.1", str(primary.port)) if primary else ("NO", "ONE")
        await self.client.replicaof(*target)

    async def replication(self) -> dict[str, Any]:
        """Return what the server says of its replication; nothing where it does not answer."""
        with suppress(RedisError):
            info: dict[str, Any] = await self.client.info("replication")
            return info
        return {}

    async def is_following(self) -> bool:
        """Return whether it has what its primary had a moment ago, and gets what comes."""
        info = await self.replication()
        return info.get("master_link_status") == "up" and not info.get("master_sync_in_progress")

    async def answers(self) -> bool:
        """Return whether it answers, and has loaded its data."""
        try:
            return bool(await self.client.ping())
        except RedisError:
            return False


class RedisGroup:
    """All servers; the first one is the primary at the begin.

    ``links`` lead each client to the primary; no fault meets the one that is called ``direct``. ``disk`` has the
    data of all.
    """

    def __init__(self, nodes: Sequence[RedisNode], links: Mapping[str, Link], disk: Path) -> None:
        self.nodes = nodes
        self.primary = nodes[0]
        self.links = links
        self.disk = disk
        self.wait_replicas = 0

    @property
    def replicas(self) -> list[RedisNode]:
        return [node for node in self.nodes if node is not self.primary]

    def setting(self, host: str) -> str:
        """Return the setting ``redis`` of a host."""
        return f'{{url: "{self.links[host].url}", timeout_seconds: 2}}'

    def client(self, name: str) -> Redis:
        """Return a client on the link of that name."""
        return open_client(ConnectionOptions(self.links[name].url, timeout_seconds=2.0), retries=0)

    def move(self, primary: RedisNode, clients: Collection[str] | None = None) -> None:
        """Lead new connections to this server: of these ``clients``, or of all."""
        self.primary = primary
        for name, link in self.links.items():
            if clients is None or name in clients:
                link.target = primary.socket

    async def wait_until_ready(self) -> None:
        """Return once all servers answer, and the replicas follow. Raises ``TimeoutError``."""
        for node in self.nodes:
            await until(node.answers, READY_SECONDS)
        for replica in self.replicas:
            await until(replica.is_following, READY_SECONDS)

    async def hand_over(self, successor: RedisNode) -> None:
        """Let a replica take over from the primary, which loses nothing: writes wait meanwhile.

        Raises ``TimeoutError``, and what redis-py raises where another fault comes in between.
        """
        former = self.primary
        await former.client.client_pause(_PAUSE_MILLISECONDS, all=False)
        try:
            await until(lambda: self._is_equal(successor), READY_SECONDS)
            await successor.follow(None)
            self.move(successor)
            await former.follow(successor)
        finally:
            await former.client.client_unpause()

    async def _is_equal(self, replica: RedisNode) -> bool:
        """Return whether the replica has everything that the primary has."""
        if not await replica.is_following():
            return False
        ours, theirs = await self.primary.replication(), await replica.replication()
        return "role" in ours and ours.get("master_repl_offset") == theirs.get("slave_repl_offset")


@asynccontextmanager
async def running_group(
    names: Sequence[str], binary: Path, disk: Path, folder: Path, journal: Journal
) -> AsyncIterator[RedisGroup]:
    """Start the servers; the first is the primary of the others."""
    async with AsyncExitStack() as stack:
        nodes: list[RedisNode] = []
        for name in names:
            node = RedisNode(name, binary, disk, folder, journal)
            stack.push_async_callback(node.client.aclose)
            node.primary_port = nodes[0].port if nodes else None
            nodes.append(await stack.enter_async_context(node))
        links = {
            name: await stack.enter_async_context(Link(nodes[0].socket, folder / f"{name}.sock"))
            for name in (*HOSTS, DIRECT)
        }
        yield RedisGroup(nodes, links, disk)


def _may_end_with(code: int) -> bool:
    """Return True for the ends of a Redis: with an error where its disk is full."""
    return code in {0, 1, -signal.SIGKILL, -signal.SIGTERM}
