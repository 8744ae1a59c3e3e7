"""The addresses of the listeners, reserved by the supervisor for its workers.

Rules: the supervisor itself listens on none of them, so that no connection waits for a process that accepts none.
Each worker gets a TCP socket of its own at each address, among which the kernel spreads connections (SO_REUSEPORT,
socket(7)); a unix socket is one that all workers accept connections from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.daemon import addresses
from nbstream.listeners.sockets import reserve_address, socket_at_same_address

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.daemon.addresses import ListenAddresses, ListenerSockets


class SharedSockets:
    """The addresses are reserved from the start until ``close``. Raises ``CannotStart`` for one that is in use."""

    def __init__(self, settings: Settings) -> None:
        self._listen_addresses = addresses.listen_addresses(settings, lambda entry: entry.is_of_workers)
        self._reserved_sockets = addresses.open_sockets(self._listen_addresses, reserve_address)
        self._unix_socket_inodes = addresses.unix_socket_inodes(self._listen_addresses)

    @property
    def bound_addresses(self) -> ListenAddresses:
        """Where workers listen: with the ports that the system chose."""
        return addresses.bound_addresses(self._listen_addresses, self._reserved_sockets)

    def open_for_worker(self) -> ListenerSockets:
        """Open new sockets for one worker, which do not listen yet; raises ``OSError``."""
        sockets: ListenerSockets = {name: [] for name in self._reserved_sockets}
        try:
            for name, reserved in self._reserved_sockets.items():
                for reserved_socket in reserved:
                    sockets[name].append(socket_at_same_address(reserved_socket))
        except BaseException:
            addresses.close_sockets(sockets)
            raise
        return sockets

    def leave_to_workers(self) -> None:
        """Leave the addresses to the workers: where none of them listens any more, connections are refused."""
        addresses.close_sockets(self._reserved_sockets)

    def close(self) -> None:
        """Give the addresses back, and remove the files of unix sockets that are still ours."""
        self.leave_to_workers()
        addresses.remove_unix_sockets(self._unix_socket_inodes)
        self._unix_socket_inodes = {}
