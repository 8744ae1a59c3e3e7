"""An address that moves from one server to another while its open connections stay where they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.harness.redis.proxy import Proxy
from tests.harness.redis.redis_server import RedisServer
from tests.harness.redis.replicas import Pair, replicated


@dataclass(frozen=True)
class MovingAddress:
    """A proxy before a primary with its replica."""

    proxy: Proxy
    pair: Pair

    @property
    def url(self) -> str:
        return self.proxy.url

    async def fail_over(self) -> None:
        """Promote the replica, demote the primary, and move the address; open connections stay where they are."""
        await self.pair.catch_up()
        await self.pair.promote()
        await self.pair.demote()
        self.proxy.target = self.pair.replica.socket


@asynccontextmanager
async def moving_address(primary: RedisServer, folder: Path) -> AsyncIterator[MovingAddress]:
    async with (
        replicated(primary, folder / "replica") as pair,
        Proxy(primary.socket, folder / "moving.sock") as proxy,
    ):
        yield MovingAddress(proxy, pair)
