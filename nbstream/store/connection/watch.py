"""Looks again and again which server is reached, so that a failover is noticed without any traffic."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from redis.exceptions import RedisError

from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection.pool import PrimaryPool

if TYPE_CHECKING:
    from redis.asyncio import Redis

_log = logging.getLogger(__name__)

_WATCH_SECONDS = 2.0


class PrimaryWatch:
    """Opens a connection every two seconds: where it reaches another server, all others are dropped.

    An address may move away from a server that still runs, and still calls itself a primary. The connections to it
    stay open then, and nothing but a new connection shows where the address leads now.
    """

    def __init__(self, client: Redis, seconds: float = _WATCH_SECONDS) -> None:
        pool = client.connection_pool
        assert isinstance(pool, PrimaryPool)
        self._pool = pool
        self._seconds = seconds

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            stop_if_cancelled()
            await asyncio.sleep(self._seconds)
            await self.look()

    async def look(self) -> None:
        """Look once. What cannot be reached is not reported: the mirror does that."""
        try:
            await self._pool.look_anew()
        except (RedisError, OSError) as error:
            _log.debug("the primary cannot be reached: %s", error)
