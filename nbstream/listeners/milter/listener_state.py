"""What all sessions of one milter listener share: limits, bytes in flight, and how messages are answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.listeners.bytes_in_flight import BytesInFlight
    from nbstream.listeners.limits import ListenerLimits
    from nbstream.listeners.milter.answers import MilterAnswers


PROGRESS_SECONDS = 5.0
"""The pause between two requests for patience; mail servers wait for minutes by default."""


@dataclass(slots=True)
class MilterListenerState:
    """The shared state; ``answers`` is for the next message that is complete.

    ``progress_seconds`` is the pause between two requests for patience while a message is worked on.
    """

    limits: ListenerLimits
    bytes_in_flight: BytesInFlight
    answers: MilterAnswers
    progress_seconds: float = PROGRESS_SECONDS
    is_unix_socket: bool = False
    draining: bool = False
