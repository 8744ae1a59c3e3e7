"""Where the listeners listen, and the sockets of one process, for every entry of the table of listeners."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.addresses import ListenAddress, TcpAddress, UnixAddress
from nbstream.daemon.listeners import LISTENERS
from nbstream.errors import CannotStart
from nbstream.server.sockets import bound_address, open_listening_socket, resolve_host

if TYPE_CHECKING:
    from nbstream.config import Settings
    from nbstream.server.listener import ListenerEntry

ListenAddresses: TypeAlias = Mapping[str, ListenAddress]
"""By the names of listeners; those without a socket are left out."""

ListenerSockets: TypeAlias = Mapping[str, list[socket.socket]]
"""By the names of listeners; only one that binds all addresses of its host may have several."""

UnixSocketInodes: TypeAlias = Mapping[Path, int]
"""The inodes of unix sockets, by their paths."""

_NAMES_THAT_BIND_ALL = {entry.name for entry in LISTENERS if entry.binds_all_addresses}


def listen_addresses(
    settings: Settings, is_wanted: Callable[[ListenerEntry[Any, Any]], bool] = lambda _: True
) -> dict[str, ListenAddress]:
    """Return where each listener that is on and wanted listens, as the settings say."""
    addresses = {entry.name: entry.listen_address(settings.listeners) for entry in LISTENERS if is_wanted(entry)}
    return {name: address for name, address in addresses.items() if address is not None}


def open_sockets(
    addresses: ListenAddresses, make: Callable[[ListenAddress], socket.socket] = open_listening_socket
) -> ListenerSockets:
    """Open the sockets: one for each listener, or one for each address of its host where it binds them all.

    Raises ``CannotStart``; then none is left open.
    """
    sockets: dict[str, list[socket.socket]] = {}
    try:
        for name, address in addresses.items():
            opened = sockets.setdefault(name, [])
            with _naming_listener(name, address):
                for single in _single_addresses(name, address):
                    opened.append(make(single))
    except BaseException:
        close_sockets(sockets)
        raise
    return sockets


def _single_addresses(name: str, address: ListenAddress) -> list[ListenAddress]:
    if name in _NAMES_THAT_BIND_ALL and isinstance(address, TcpAddress):
        return resolve_host(address)
    return [address]


def close_sockets(sockets: ListenerSockets) -> None:
    """Close them all."""
    for opened in sockets.values():
        for listening in opened:
            listening.close()


def unix_socket_inodes(addresses: ListenAddresses) -> UnixSocketInodes:
    """Return the inodes of the unix sockets that were made for ``addresses``; a closed socket keeps its file."""
    paths = [address.path for address in addresses.values() if isinstance(address, UnixAddress)]
    return {path: path.stat().st_ino for path in paths}


def remove_unix_sockets(inodes: UnixSocketInodes) -> None:
    """Remove the files that are still ours: another program may have put a socket of its own there."""
    for path, inode in inodes.items():
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


def bound_addresses(addresses: ListenAddresses, sockets: ListenerSockets) -> ListenAddresses:
    """Return where these sockets, made for ``addresses``, listen: with the ports that the system chose."""
    return {name: bound_address(addresses[name], opened[0]) for name, opened in sockets.items()}


@contextmanager
def _naming_listener(name: str, address: ListenAddress) -> Iterator[None]:
    """Turn an ``OSError`` into one that names the listener which could not be opened."""
    try:
        yield
    except OSError as error:
        text = f"listeners.{name}.listen: cannot listen on {address}: {error.strerror}"
        raise CannotStart(text) from error
