"""How long to wait before something that failed is tried again: longer with each failure in a row.

Rule: those who lost the same server at the same moment wait for different times, lest all come back at once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

REDIS_WAITS = (0.1, 0.2, 0.5, 1.0, 2.0)
"""Waits in seconds for what needs Redis: short, since work stands still until it is back."""

RESTART_WAITS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Waits in seconds before a process that has ended is started again."""


class Backoff:
    """The waits between the attempts at one thing; the last wait is repeated until an attempt succeeds.

    A wait lies anywhere in the upper half of its length.
    """

    def __init__(self, waits: Sequence[float] = REDIS_WAITS) -> None:
        self._waits = waits
        self.failures = 0
        """How many attempts have failed in a row."""

    def next_wait(self) -> float:
        """Count one more failure, and return the seconds to wait before the next attempt."""
        wait = self._waits[min(self.failures, len(self._waits) - 1)]
        self.failures += 1
        return wait * random.uniform(0.5, 1)  # noqa: S311 - no secret

    def reset(self) -> None:
        """Forget the failures, since an attempt has succeeded."""
        self.failures = 0
