"""The retention of the quarantine: messages that are older than the configured days are removed."""

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
_MESSAGES_PER_STEP = 1000  # the end of the daemon waits for the thread that removes them


class QuarantineRetention:
    """Removes messages older than ``days`` (None: nothing) and counts the others, once a minute.

    ``on_swept`` is called with how many messages are left, and how many were removed.
    """

    def __init__(self, quarantine: Quarantine, days: int | None, on_swept: Callable[[int, int], object]) -> None:
        self._quarantine = quarantine
        self._days = days
        self._on_swept = on_swept

    async def run(self) -> None:
        """Remove messages until cancelled; log a problem once, and try again as long as it lasts."""
        logged_problem = ""
        while True:
            try:
                result = await self.remove_expired()
                problem = result.problem
            except InputError as error:
                result, problem = None, str(error)
            if problem and problem != logged_problem:
                _log.warning("the quarantine cannot be swept: %s", problem)
            logged_problem = problem
            if result is None or result.removed < _MESSAGES_PER_STEP:
                await asyncio.sleep(_INTERVAL_SECONDS)

    async def remove_expired(self) -> RetentionResult:
        """Remove messages once. Raises ``InputError``."""
        result = await asyncio.to_thread(self._quarantine.remove_expired, self._days, _MESSAGES_PER_STEP)
        self._on_swept(result.remaining, result.removed)
        if result.removed:
            _log.info(
                "quarantine: messages removed for their age",
                extra=event_fields(removed=result.removed, held=result.remaining, days=self._days),
            )
        return result
