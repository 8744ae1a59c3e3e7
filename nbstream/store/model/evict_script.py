"""The script that removes tokens from a model (``evict.lua``)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nbstream.store.lua import lua_script
from nbstream.store.model import ledger
from nbstream.store.model.retention import MAX_CHANGES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys


@dataclass(frozen=True, slots=True)
class Eviction:
    """The stream id of the change, and the number of tokens that were removed or whose counts below zero were."""

    change: bytes
    tokens: int


class EvictScript:
    """Removes tokens from one model."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._script = client.register_script(lua_script("evict.lua"))
        self._keys = [keys.totals, keys.changes, keys.sequence, *keys.counts]

    async def run(
        self, tokens: Sequence[bytes], counts: NDArray[np.int64], vocabulary: int | None
    ) -> Eviction | None:
        """Remove those of some hundred distinct ``tokens`` that still have these ``counts``, in one atomic step.

        ``counts`` has the shape (tokens, classes). It stops when the model has ``vocabulary`` tokens left; with
        None only counts below zero are removed. Returns None where nothing was changed. Raises
        what redis-py raises.
        """
        columns = [" ".join(map(str, column)) for column in counts.T.tolist()]
        target = "" if vocabulary is None else vocabulary
        reply: Any = await self._script(
            keys=self._keys, args=[target, MAX_CHANGES, ledger.join_tokens(tokens), *columns]
        )
        return Eviction(reply[0], int(reply[1])) if reply else None
