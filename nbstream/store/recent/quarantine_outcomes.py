"""Noting in the row of a checked message what became of it in the quarantine."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from nbstream.errors import StoreUnavailable
from nbstream.store.lua import lua_script
from nbstream.store.recent.message_rows import QuarantineOutcome
from nbstream.store.redis_errors import store_errors

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from nbstream.store.model.keys import ModelKeys
    from nbstream.store.recent.message_rows import OutcomeKind

_log = logging.getLogger(__name__)


class QuarantineOutcomes:
    """Notes what became of quarantined messages, for as long as their rows are remembered."""

    def __init__(self, client: Redis, keys: ModelKeys) -> None:
        self._keys = keys
        self._script = client.register_script(lua_script("note_outcome.lua"))

    async def note(self, message_key: str, kind: OutcomeKind, actor: str) -> None:
        """Note it, in place of what was noted before; without a row nothing is noted.

        What cannot be written is logged and not noted: it has happened all the same.
        """
        outcome = QuarantineOutcome(kind, time.time(), actor)
        try:
            with store_errors():
                await self._script(keys=[self._keys.row(message_key)], args=[outcome.pack()])
        except StoreUnavailable as error:
            _log.warning("lists will not show what became of a quarantined message: %s", error)
