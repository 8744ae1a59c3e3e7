"""The limits of a listener that serves connections."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ListenerLimits:
    """The limits of a message, of the connections, and of a client's time.

    ``idle_timeout_seconds`` is for the next bytes of a client, ``message_timeout_seconds`` for a whole message or
    request. What a listener does to a client beyond a limit is a matter of its protocol.
    """

    max_message_bytes: int = 50 << 20
    max_connections: int = 200
    idle_timeout_seconds: float = 300
    message_timeout_seconds: float = 300
