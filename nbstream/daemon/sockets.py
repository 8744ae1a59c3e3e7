"""The sockets of the listeners in one process, and those that a supervisor shares with its workers.

Rules: a supervisor reserves the addresses of its workers and itself listens on none of them, so that no connection
waits for a process that accepts none. Each worker gets a TCP socket of its own at each address, among which the
kernel spreads connections (SO_REUSEPORT, socket(7)); all workers accept from one unix socket, and from one for
metrics.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from nbstream.addresses import ListenAddress, TcpAddress, UnixAddress
from nbstream.daemon.listeners import LISTENERS
from nbstream.errors import CannotStart
from nbstream.server.sockets import (
    bound_address,
    open_listening_socket,
    reserve_address,
    resolve_host,
    socket_at_same_address,
)

if TYPE_CHECKING:
    from typing import Any

    from nbstream.daemon.config import Settings
    from nbstream.server.listener import ListenerEntry

ListenAddresses: TypeAlias = Mapping[str, ListenAddress]
"""By the names of listeners; those without a socket are left out."""

SocketsByName: TypeAlias = Mapping[str, list[socket.socket]]
"""By the names of listeners; only one that binds all addresses of its host may have several."""


class ListenerSockets:
    """The sockets of all listeners that are on: one for each, or for each address of its host.

    ``for_workers`` they do not listen, but reserve the addresses. Raises ``CannotStart`` with the name of the
    listener; then none is left open.
    """

    def __init__(self, settings: Settings, *, for_workers: bool = False) -> None:
        addresses: dict[str, ListenAddress] = {}
        self.by_name: dict[str, list[socket.socket]] = {}
        try:
            for entry in LISTENERS:
                address = entry.listen_address(settings.listeners)
                if address is not None:
                    addresses[entry.name] = address
                    make = open_listening_socket
                    if for_workers:
                        make = partial(reserve_address, for_one_socket=entry.shares_socket)
                    for opened in _open_sockets(entry, address, make):
                        self.by_name.setdefault(entry.name, []).append(opened)
        except BaseException:
            self.close()
            raise
        self.bound_addresses: ListenAddresses = {
            name: bound_address(address, self.by_name[name][0]) for name, address in addresses.items()
        }
        """Where the listeners listen: with the ports that the system chose."""
        # A closed socket keeps its file.
        paths = [address.path for address in addresses.values() if isinstance(address, UnixAddress)]
        self._inodes = {path: path.stat().st_ino for path in paths}

    def open_for_worker(self) -> SocketsByName:
        """Open new sockets at the same addresses for one worker, which do not listen yet; raises ``OSError``."""
        sockets: dict[str, list[socket.socket]] = {name: [] for name in self.by_name}
        try:
            for name, opened in self.by_name.items():
                for reserved in opened:
                    sockets[name].append(socket_at_same_address(reserved))
        except BaseException:
            close_sockets(sockets)
            raise
        return sockets

    def close(self) -> None:
        """Close all sockets; where nobody else has them, connections are refused from now on."""
        close_sockets(self.by_name)

    def remove_files(self) -> None:
        """Remove the files of unix sockets that are still ours: another program may have put its own there."""
        for path, inode in self._inodes.items():
            with suppress(OSError):
                if path.stat().st_ino == inode:
                    path.unlink()
        self._inodes = {}


def close_sockets(sockets: SocketsByName) -> None:
    """Close them all."""
    for opened in sockets.values():
        for listening in opened:
            listening.close()


def _open_sockets(
    entry: ListenerEntry[Any, Any], address: ListenAddress, make: Callable[[ListenAddress], socket.socket]
) -> Iterator[socket.socket]:
    try:
        if entry.binds_all_addresses and isinstance(address, TcpAddress):
            yield from map(make, resolve_host(address))
        else:
            yield make(address)
    except OSError as error:
        text = f"listeners.{entry.name}.listen: cannot listen on {address}: {error.strerror}"
        raise CannotStart(text) from error
