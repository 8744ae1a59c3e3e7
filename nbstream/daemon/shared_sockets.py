"""The addresses of the doors, held by the parent for its workers.

Rules: the parent itself listens nowhere, so no connection waits for a process that takes none. Each worker gets a
TCP socket of its own at each address, among which the kernel spreads connections (SO_REUSEPORT, socket(7)); a unix
socket is one that all take connections from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.daemon import addresses
from nbstream.listeners.sockets import reserve_address, socket_at_same_address

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import BoundAddresses, ListenerSockets


class SharedSockets:
    """Reserved from the start, until ``close``. Raises ``CannotStart`` for what is taken."""

    def __init__(self, settings: Settings) -> None:
        self._listen_addresses = {
            name: where for name, where in addresses.listen_addresses(settings).items() if name != "metrics"
        }
        self._reserved_sockets = addresses.open_sockets(self._listen_addresses, reserve_address)
        self._unix_socket_inodes = addresses.unix_socket_inodes(self._listen_addresses)

    @property
    def bound_addresses(self) -> BoundAddresses:
        """Where workers listen: with the ports that the system chose."""
        return addresses.bound_addresses(self._listen_addresses, self._reserved_sockets)

    def open_for_worker(self) -> ListenerSockets:
        """New sockets for one worker, not listening yet; raises ``OSError``."""
        found: ListenerSockets = {name: [] for name in self._reserved_sockets}
        try:
            for name, held in self._reserved_sockets.items():
                for each in held:
                    found[name].append(socket_at_same_address(each))
        except BaseException:
            addresses.close_sockets(found)
            raise
        return found

    def leave_to_workers(self) -> None:
        """Leave the addresses to the workers: where none of them listens any more, nobody is let in."""
        addresses.close_sockets(self._reserved_sockets)

    def close(self) -> None:
        """Let go of the addresses; a unix socket that is still ours has no name any more."""
        self.leave_to_workers()
        addresses.remove_unix_sockets(self._unix_socket_inodes)
        self._unix_socket_inodes = {}
