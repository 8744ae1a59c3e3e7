"""Waiting until replicas have what was acknowledged, so that a failover cannot lose it.

Rules. WAIT counts the replicas that have all writes of its own connection. Therefore a write that changes nothing
goes before it on the same connection: replication keeps the order, so a replica that has this write has every one
before it, from whichever connection it came. So a lesson that was committed before, and whose wait had failed, is
waited for as well when it is repeated.

A replica that has a write in its memory may lose it in a crash. WAIT bounds what a failover loses; it is no
consensus: a primary that is cut off together with some replicas, or a replica that is promoted although it lacks
the write, still loses it unless all replicas are waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.errors import StoreRefuses
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.connection import ServerGuard
    from nbstream.store.model.keys import ModelKeys


@dataclass(frozen=True, slots=True)
class ReplicaWaitOptions:
    """How many replicas must have a lesson before it is acknowledged (0: none), and how long that may take.

    ``timeout_seconds`` has to be shorter than the deadline of a command.
    """

    replicas: int = 0
    timeout_seconds: float = 2.5


class ReplicaWait:
    """Waits for the replicas of one model's server."""

    def __init__(self, client: Redis, keys: ModelKeys, options: ReplicaWaitOptions) -> None:
        self._client = client
        self._keys = keys
        self._options = options

    async def wait(self, guard: ServerGuard) -> None:
        """Return when enough replicas have all that was written since ``guard`` was made, and before.

        Raises ``StoreRefuses`` where they do not have it in time, and ``StoreUnavailable`` where another server
        answers by now, which may lack it. It is stored in both cases, or it was; it may be committed again.
        """
        options = self._options
        if not options.replicas:
            return
        with store_errors():
            async with self._client.pipeline(transaction=False) as pipe:
                pipe.incrby(self._keys.sequence, 0)
                pipe.execute_command("WAIT", options.replicas, max(1, round(options.timeout_seconds * 1000)))
                _, replicas = await pipe.execute()
        guard.check()
        if replicas < options.replicas:
            raise StoreRefuses(
                f"the lesson is stored, but {replicas} replicas have it, and redis.wait_replicas is "
                f"{options.replicas}"
            )
