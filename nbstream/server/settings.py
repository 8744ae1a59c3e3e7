"""The settings that all listeners share."""

from __future__ import annotations

from pydantic import ValidationInfo, field_validator

from nbstream.settings.values import ByteCount, Count, Section


class LimitsSettings(Section):
    """The limits of a message, and of what each listener has in hand."""

    max_message_bytes: ByteCount = 50 << 20
    """A larger message is refused for good (552, 413). It should be no less than what the mail server itself
    accepts. It holds for a compressed message once it is unpacked.
    """

    max_bytes_in_flight: ByteCount = 256 << 20
    """The memory limit of each listener for the messages in hand; each message counts twice, because it is copied
    while it is worked on. Mail beyond that is put off (452, 503), but never a message that is alone. It must be at
    least ``max_message_bytes``.
    """

    max_connections: Count = 200
    """The connections of each listener, and those to the next hop. A further client is put off (421, 503), and a
    further message waits for a connection to the next hop.
    """

    look_bytes: ByteCount = 1 << 20
    """The bytes of a message that are looked at, from its start. Of a longer message the end is looked at too: an
    eighth of this.
    """

    @field_validator("max_bytes_in_flight")
    @classmethod
    def _room_for_one(cls, value: int, info: ValidationInfo) -> int:
        # With fewer bytes a message of the permitted size would be put off for ever instead of being refused.
        largest = info.data.get("max_message_bytes", 0)
        if value < largest:
            raise ValueError(f"must be at least limits.max_message_bytes ({largest})")
        return value
