"""The first scores of a model for who asks Redis itself: all are read once, then only what has changed since.

Rules: as of a mirror, the place in the change stream is noted before the scan, changes may be seen twice, and a
gap in their numbers means that all are read again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.keys import ModelKeys

_READ_COUNT = 500


class FirstScoresFollower:
    """First scores, and the place in the change stream that they are of."""

    def __init__(self, first_scores: FirstScores, last_id: bytes, sequence: int) -> None:
        self.first_scores = first_scores
        self._last_id = last_id
        self._sequence = sequence

    async def catch_up(self, client: Redis, keys: ModelKeys) -> bool:
        """Follow what others did meanwhile; False where that cannot be known any more.

        Raises ``StoreIncompatible``, and what redis-py raises.
        """
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            entries = await client.xrange(keys.changes, min=b"(" + self._last_id, count=_READ_COUNT)
            for entry_id, fields in entries:
                try:
                    if int(fields[b"sequence"]) != self._sequence + 1:
                        return False
                    self.first_scores.apply_change(fields)
                except (KeyError, ValueError):
                    return False
                self._last_id, self._sequence = entry_id, self._sequence + 1
        return True
