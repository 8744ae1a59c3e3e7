"""When checkpoints are written: beside checks and lessons, by the process that writes the counts."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING

from nbstream.bayes.counts import NO_CHANGE
from nbstream.engine.table import TableFailure
from nbstream.logs import event_fields
from nbstream.store.cancellation import stop_if_cancelled

if TYPE_CHECKING:
    from nbstream.store.mirror.checkpoint import CheckpointFile
    from nbstream.store.mirror.mirror import Mirror

_log = logging.getLogger(__name__)

LEAST_TOKENS = 100_000
"""A smaller model is read from Redis in a fraction of a second."""

_LOOK_SECONDS = 60.0
_MOST_CHANGES = 2_000  # far below the changes that the stream has: a start replays them in a second
_OLDEST_SECONDS = 3600.0


class CheckpointWriter:
    """Writes checkpoints of the counts of ``mirror``, as long as this process is the one that writes these."""

    def __init__(self, mirror: Mirror, file: CheckpointFile, least_tokens: int = LEAST_TOKENS) -> None:
        self._mirror = mirror
        self._file = file
        self._least_tokens = least_tokens
        self._written_at = time.monotonic()

    async def run(self) -> None:
        """Write a checkpoint whenever it is due, until cancelled; of failures in a row the first is logged."""
        failing = False
        while True:
            await self._mirror.loaded.wait()
            stop_if_cancelled()
            try:
                await self.write_if_due()
                failing = False
            except (OSError, TableFailure) as error:
                if not failing:
                    _log.warning("no checkpoint is written, the next start reads all counts from Redis: %s", error)
                failing = True
            await asyncio.sleep(_LOOK_SECONDS)

    async def write_if_due(self) -> None:
        """Write a checkpoint where there is none, or many changes have come, or some and an hour has passed."""
        table = self._mirror.written_table
        if table is None or self._file.identity is None or self._mirror.vocabulary_size < self._least_tokens:
            return
        changes = abs(table.describe().position[2] - self._file.position.sequence)
        started = time.monotonic()
        is_due = self._file.position == NO_CHANGE or started - self._written_at > _OLDEST_SECONDS
        if changes > _MOST_CHANGES or (changes and is_due):
            await asyncio.to_thread(self._file.write, table, self._mirror.checkpoint_context())
            self._written_at = time.monotonic()
            _log.info("checkpoint written", extra=event_fields(seconds=round(self._written_at - started, 1)))
