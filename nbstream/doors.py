"""The doors for programs: which are open, and what the daemon asks of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from nbstream.config import Address
from nbstream.listeners.sockets import TcpPlace, UnixPlace

if TYPE_CHECKING:
    import socket

    from nbstream.config import Settings
    from nbstream.config.listeners import Door as DoorSettings
    from nbstream.filter import Filter
    from nbstream.listeners.sockets import Place
    from nbstream.metrics import Metrics


class Door(Protocol):
    """One door. ``spam_filter`` may be replaced at any time: the next request goes by the new one."""

    spam_filter: Filter

    async def start(self, listening: socket.socket) -> None:
        """Serve on this socket."""

    async def drain(self, seconds: float) -> None:
        """Stop accepting, let requests under way finish within ``seconds``, then close what is left."""


@dataclass(frozen=True, slots=True)
class Opening:
    """A door that is to be opened, by its name under ``listeners``."""

    name: str
    place: Place
    door: Door


def openings(settings: Settings, spam_filter: Filter, metrics: Metrics) -> Iterator[Opening]:
    """The doors that the settings open, those for mail and for metrics aside."""
    return iter(())


def place(settings: DoorSettings) -> Place:
    """Where a door listens."""
    listen = settings.listen
    if isinstance(listen, Address):
        return TcpPlace(listen.host, listen.port)
    return UnixPlace(listen.path, settings.socket_mode, settings.socket_group)
