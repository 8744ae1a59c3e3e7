"""The addresses of the doors, held by the parent for its workers.

Rules: the parent itself listens nowhere, so no connection waits for a process that takes none. Each worker gets a
TCP socket of its own at each address, among which the kernel spreads connections (SO_REUSEPORT, socket(7)); a unix
socket is one that all take connections from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.daemon import addresses
from nbstream.listeners.sockets import reserved, shared

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import Addresses, Sockets


class Shares:
    """Reserved from the start, until ``close``. Raises ``CannotStart`` for what is taken."""

    def __init__(self, settings: Settings) -> None:
        self._places = {name: where for name, where in addresses.places(settings).items() if name != "metrics"}
        self._held = addresses.opened(self._places, reserved)
        self._names = addresses.names(self._places)

    @property
    def addresses(self) -> Addresses:
        """Where workers listen: with the ports that the system chose."""
        return addresses.addresses(self._places, self._held)

    def share(self) -> Sockets:
        """New sockets for one worker, not listening yet; raises ``OSError``."""
        found: Sockets = {name: [] for name in self._held}
        try:
            for name, held in self._held.items():
                for each in held:
                    found[name].append(shared(each))
        except BaseException:
            addresses.close(found)
            raise
        return found

    def leave(self) -> None:
        """Leave the addresses to the workers: where none of them listens any more, nobody is let in."""
        addresses.close(self._held)

    def close(self) -> None:
        """Let go of the addresses; a unix socket that is still ours has no name any more."""
        self.leave()
        addresses.remove(self._names)
        self._names = {}
