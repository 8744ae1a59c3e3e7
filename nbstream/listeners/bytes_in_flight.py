"""The bytes of messages that a listener has in memory, counted over all of its connections."""

from __future__ import annotations


class BytesInFlight:
    """Counts bytes in memory against a limit. ``reserved`` is the present number."""

    def __init__(self, limit: int) -> None:
        self.reserved = 0
        self._limit = limit

    @property
    def is_exhausted(self) -> bool:
        """Whether no byte is left."""
        return self.reserved >= self._limit

    def reserve(self, size: int) -> bool:
        """Count ``size`` more bytes and return True; where they do not fit, count nothing and return False."""
        if self.reserved + size > self._limit:
            return False
        self.reserved += size
        return True

    def reserve_anyway(self, size: int) -> None:
        """Count ``size`` bytes that are in memory already, even beyond the limit."""
        self.reserved += size

    def release(self, size: int) -> None:
        """Give ``size`` reserved bytes back; to give back more than was reserved is a fault of the caller."""
        assert size <= self.reserved, f"{size} bytes are released, and {self.reserved} were reserved"
        self.reserved -= size
