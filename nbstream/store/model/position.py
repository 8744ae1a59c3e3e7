"""The position of a model: how far its change stream and its history have come, all of one moment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.store.lua import lua_script
from nbstream.store.model.totals import totals_from_hash

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.bayes.counts import Totals
    from nbstream.store.model.keys import ModelKeys


@dataclass(frozen=True, slots=True)
class ModelPosition:
    """The stream id of the last change, its sequence number, the id of the last history record, and the totals.

    The ids are ``0-0`` and the number is 0 where there is none.
    """

    change: bytes
    sequence: int
    record: bytes
    totals: Totals


class PositionScript:
    """Reads the position of one model."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._script = client.register_script(lua_script("position.lua"))
        self._keys = [keys.changes, keys.sequence, keys.history, keys.totals]

    async def read(self) -> ModelPosition:
        """The position now. Raises what redis-py raises."""
        reply: Any = await self._script(keys=self._keys)
        change, sequence, record, totals = reply
        fields = dict(zip(totals[0::2], totals[1::2], strict=True))
        return ModelPosition(change, int(sequence), record, totals_from_hash(fields))
