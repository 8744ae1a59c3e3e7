"""The Redis of a run, which writes everything to its disk before it answers, and the links that lead to it."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from redis.asyncio import Redis
from redis.exceptions import RedisError

from nbstream.store.connection import ConnectionOptions, open_client
from tests.harness.waiting import until
from tests.soak.chaos.journal import Journal
from tests.soak.chaos.links import Link
from tests.soak.chaos.schedule import HOSTS
from tests.soak.chaos.services import Service

READY_SECONDS = 90.0
"""How long a server may take to recover, on a slow machine."""

DIRECT = "direct"
"""The link that no fault meets."""


class RedisService(Service):
    """The server. ``links`` lead each host to it; ``disk`` has its data."""

    def __init__(self, binary: Path, disk: Path, folder: Path, journal: Journal) -> None:
        self.disk = disk
        self.socket = folder / "redis.sock"
        command = (
            *(binary, "--port", "0", "--unixsocket", self.socket, "--dir", disk, "--save", ""),
            *("--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-min-size", "8mb"),
        )
        super().__init__("redis", lambda: command, folder / "redis.log", journal, _may_end_with)
        self.links: dict[str, Link] = {}
        self.admin = open_client(ConnectionOptions(f"unix://{self.socket}", timeout_seconds=2.0), retries=0)

    def setting(self, host: str) -> str:
        """Return the setting ``redis`` of a host."""
        return f'{{url: "{self.links[host].url}", timeout_seconds: 2}}'

    def client(self, name: str) -> Redis:
        """Return a client on the link of that name: it meets the faults of that host, or none on ``DIRECT``."""
        return open_client(ConnectionOptions(self.links[name].url, timeout_seconds=2.0), retries=0)

    async def wait_until_ready(self) -> None:
        """Return once it answers, and has loaded its data. Raises ``TimeoutError``."""
        await until(self._answers, READY_SECONDS)

    async def _answers(self) -> bool:
        try:
            return bool(await self.admin.ping())
        except RedisError:
            return False


@asynccontextmanager
async def running_redis(binary: Path, disk: Path, folder: Path, journal: Journal) -> AsyncIterator[RedisService]:
    """Start the server and its links."""
    async with AsyncExitStack() as stack:
        service = RedisService(binary, disk, folder, journal)
        stack.push_async_callback(service.admin.aclose)
        await stack.enter_async_context(service)
        for name in (*HOSTS, DIRECT):
            link = Link(service.socket, folder / f"{name}.sock")
            service.links[name] = await stack.enter_async_context(link)
        yield service


def _may_end_with(code: int) -> bool:
    """Return True for the ends of a Redis: with an error where its disk is full."""
    return code in {0, 1, -signal.SIGKILL, -signal.SIGTERM}
