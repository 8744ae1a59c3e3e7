"""How often somebody has tried something lately, such as a password: counts in Redis that expire by themselves.

Rules: all processes see the same counts. One begins with the first attempt, and ends ``COUNTED_SECONDS`` later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys

COUNTED_SECONDS = 60


@dataclass(frozen=True, slots=True)
class AttemptCount:
    """How many attempts there have been, and in how many seconds they are forgotten."""

    count: int
    seconds: float


class AttemptCounts:
    """The counts of one model, by what they are counted for (a text of bounded length)."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys

    async def add(self, sources: Iterable[str]) -> Sequence[AttemptCount]:
        """Count one more attempt for each of these; return their counts. Raises ``StoreUnavailable``."""
        with store_errors(), readable_replies():
            async with self._client.pipeline(transaction=True) as pipeline:
                for source in sources:
                    key = self._keys.attempts(source)
                    pipeline.set(key, 0, ex=COUNTED_SECONDS, nx=True)
                    pipeline.incr(key)
                    pipeline.pttl(key)
                replies = await pipeline.execute()
            return [
                AttemptCount(int(count), int(milliseconds) / 1000)
                for count, milliseconds in zip(replies[1::3], replies[2::3], strict=True)
            ]
