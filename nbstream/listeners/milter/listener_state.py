"""What all sessions of one milter listener share: limits, bytes in flight, and how messages are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.listeners.milter.answers import MilterAnswers


@dataclass(frozen=True, slots=True)
class MilterLimits:
    """Limits of a message, of a mail server's time, and of the connections.

    ``progress_seconds`` is the pause between two requests for patience while a message is worked on.
    """

    max_message_bytes: int = 50 << 20
    idle_timeout_seconds: float = 7200
    message_timeout_seconds: float = 300
    max_connections: int = 500
    progress_seconds: float = 5


@dataclass(slots=True)
class MilterListenerState:
    """The shared state; ``answers`` is for the next message that is complete."""

    limits: MilterLimits
    bytes_in_flight: BytesInFlight
    answers: MilterAnswers
    is_unix_socket: bool = False
    draining: bool = False
