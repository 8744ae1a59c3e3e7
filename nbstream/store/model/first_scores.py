"""The first scores of a model, read from Redis: all of them once, afterwards only what has changed.

Rules: as in a mirror, the position in the change stream is read before the scan, a change may be applied although
the scan has seen it, and a gap in the sequence numbers means that all first scores are read again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.store.model.change import lesson_count
from nbstream.store.model.position import PositionScript
from nbstream.store.model.scan import scan_first_scores

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.keys import ModelKeys

_READ_COUNT = 10  # changes: of 64 lessons each they are 2 MB


@dataclass(slots=True)
class _FirstScoresCopy:
    """First scores in memory, and the last change that was applied to them."""

    first_scores: FirstScores
    last_id: bytes
    sequence: int


class StoredFirstScores:
    """The first scores of one model, for callers that have no mirror."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._client = client
        self._keys = keys
        self._position_script = PositionScript(client, keys)
        self._copy: _FirstScoresCopy | None = None

    async def read(self) -> FirstScores:
        """The first scores as they are now. The first call takes about a second for 100,000 of them.

        Raises ``StoreIncompatible``, and what redis-py raises.
        """
        while self._copy is None or not await self._catch_up(self._copy):
            position = await self._position_script.read()
            first_scores = await scan_first_scores(self._client, self._keys)
            self._copy = _FirstScoresCopy(first_scores, position.change, position.sequence)
        return self._copy.first_scores

    async def _catch_up(self, copy: _FirstScoresCopy) -> bool:
        """Apply the changes since the last call; False where they cannot be known, since the stream has a gap."""
        entries: Any = None
        while entries is None or len(entries) == _READ_COUNT:
            entries = await self._client.xrange(self._keys.changes, min=b"(" + copy.last_id, count=_READ_COUNT)
            for entry_id, fields in entries:
                try:
                    sequence = int(fields[b"sequence"])
                    if sequence != copy.sequence + lesson_count(fields):
                        return False
                    copy.first_scores.apply_change(fields)
                except (KeyError, ValueError):
                    return False
                copy.last_id, copy.sequence = entry_id, sequence
        return True
