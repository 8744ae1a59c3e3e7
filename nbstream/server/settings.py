"""The settings that all listeners share."""

from __future__ import annotations

from nbstream.settings.values import ByteCount, Count, Section

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
