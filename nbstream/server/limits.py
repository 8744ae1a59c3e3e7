"""The limits of a listener: of its messages, its clients, and the bytes that it has in memory.

Rules: a message counts twice, because it is held twice while it is worked on: as it came, and with CRLF line ends,
without forged fields, decompressed, or with fields on top. What else is made of it is bounded by
``MessageLimits.look_bytes``. A message that is alone may have what it needs: else it would be put off for ever.
"""

from __future__ import annotations

from typing import NamedTuple

from nbstream.settings.values import ByteCount, Count, Section


class ListenerLimits(NamedTuple):
    """The limits of a message, of the connections, and of a client's time.

    ``idle_timeout_seconds`` is for the next bytes of a client, ``message_timeout_seconds`` for a whole message or
    request. What a listener does to a client beyond a limit is a matter of its protocol.
    """

    max_message_bytes: int = 50 << 20
    max_connections: int = 200
    idle_timeout_seconds: float = 300
    message_timeout_seconds: float = 300

    @property
    def max_discarded_bytes(self) -> int:
        """The bytes that a refused client may send: many read the reason only when they have sent everything."""
        return 2 * self.max_message_bytes


COPIES = 2
"""How often a message is held while it is worked on."""


class BytesInFlight:
    """Counts bytes of messages; ``COPIES`` times as many may not be more than ``limit``.

    ``reserved`` is the present number of bytes of messages.
    """

    def __init__(self, limit: int) -> None:
        self.reserved = 0
        self._limit = limit

    @property
    def is_exhausted(self) -> bool:
        """Whether there is room for no byte."""
        return COPIES * self.reserved >= self._limit

    def reserve(self, size: int, held: int = 0) -> bool:
        """Count ``size`` more bytes and return True; where they do not fit, count nothing and return False.

        ``held`` is what was reserved for the same message before. If nothing else is reserved, any size fits: the
        caller has a limit for one message.
        """
        is_alone = self.reserved == held
        if not is_alone and COPIES * (self.reserved + size) > self._limit:
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


class Reservation:
    """The bytes in flight that one message holds. As a context manager, it releases them at the end."""

    def __init__(self, bytes_in_flight: BytesInFlight) -> None:
        self.size = 0
        self._bytes_in_flight = bytes_in_flight

    def __enter__(self) -> Reservation:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def add(self, size: int) -> bool:
        """Reserve ``size`` bytes more and return True; where they do not fit, reserve nothing and return False."""
        if not self._bytes_in_flight.reserve(size, held=self.size):
            return False
        self.size += size
        return True

    def release(self) -> None:
        """Give back all that is reserved; that may be done twice."""
        self._bytes_in_flight.release(self.size)
        self.size = 0


# The settings that all listeners share.

MAX_BYTES_IN_FLIGHT = 256 << 20
"""The memory of each listener for the messages in hand, each of which counts twice: hundreds of usual ones."""


class LimitsSettings(Section):
    """The limits of a message, and of what each listener has in hand."""

    max_message_bytes: ByteCount = 50 << 20
    """A larger message is refused for good (552, 413). It should be no less than what the mail server accepts."""

    max_connections: Count = 200
    """The connections of each listener, and those to the next hop. A further client is put off (421, 503)."""

    @property
    def max_bytes_in_flight(self) -> int:
        """The memory limit of each listener: with less, the largest message would be put off for ever."""
        return max(MAX_BYTES_IN_FLIGHT, self.max_message_bytes)
