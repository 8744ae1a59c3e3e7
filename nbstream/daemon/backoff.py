"""How long to wait before what died is started again."""

from __future__ import annotations

_FIRST_SECONDS = 0.5
_LONGEST_SECONDS = 60.0
_STEADY_SECONDS = 60.0  # who ran for so long did not die of how it is started


class Backoff:
    """Waits that double with each death in a row, up to a minute; a long life forgives them all."""

    def __init__(self) -> None:
        self._next = _FIRST_SECONDS

    def seconds_after(self, lived_seconds: float) -> float:
        """Seconds to wait after a life of ``lived_seconds``."""
        if lived_seconds >= _STEADY_SECONDS:
            self._next = _FIRST_SECONDS
        found = self._next
        self._next = min(2 * found, _LONGEST_SECONDS)
        return found
