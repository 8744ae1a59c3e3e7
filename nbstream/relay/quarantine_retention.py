"""How long the quarantine keeps a message."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.errors import InputError
from nbstream.logs import event_fields

if TYPE_CHECKING:
    from nbstream.relay.quarantine import Quarantine, RetentionResult

_log = logging.getLogger(__name__)

_INTERVAL_SECONDS = 60.0
_MESSAGES_PER_STEP = 1000  # messages: a thread that is told to end is waited for


class QuarantineRetention:
    """Removes what is older than ``days`` (None: nothing) and counts what is left, once a minute.

    ``swept`` is told how many messages are there, and how many were removed.
    """

    def __init__(self, quarantine: Quarantine, days: int | None, swept: Callable[[int, int], object]) -> None:
        self._quarantine = quarantine
        self._days = days
        self._on_swept = swept

    async def run(self) -> None:
        """Sweep until cancelled; a folder that cannot be read or written is told once, and tried again."""
        told = ""
        while True:
            try:
                swept = await self.remove_expired()
                problem = swept.problem
            except InputError as error:
                swept, problem = None, str(error)
            if problem and problem != told:
                _log.warning("the quarantine cannot be swept: %s", problem)
            told = problem
            if swept is None or swept.removed < _MESSAGES_PER_STEP:
                await asyncio.sleep(_INTERVAL_SECONDS)

    async def remove_expired(self) -> RetentionResult:
        """Sweep once. Raises InputError."""
        swept = await asyncio.to_thread(self._quarantine.remove_expired, self._days, _MESSAGES_PER_STEP)
        self._on_swept(swept.remaining, swept.removed)
        if swept.removed:
            _log.info(
                "quarantine: messages removed for their age",
                extra=event_fields(removed=swept.removed, held=swept.remaining, days=self._days),
            )
        return swept
