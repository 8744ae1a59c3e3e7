"""Where the doors listen, and the sockets of one process."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from nbstream.assembly.listeners import listen_address
from nbstream.errors import CannotStart
from nbstream.listeners.sockets import (
    ListenAddress,
    TcpListenAddress,
    UnixListenAddress,
    bound_address,
    open_listening_socket,
    resolve_host,
)

if TYPE_CHECKING:
    from nbstream.config import Settings

ListenerSockets: TypeAlias = Mapping[str, list[socket.socket]]
"""By the names of doors under ``listeners``; only that for mail may have several."""

UnixSocketInodes: TypeAlias = Mapping[Path, int]
"""The inodes of unix sockets, by their paths."""


@dataclass(frozen=True, slots=True)
class BoundAddresses:
    """Where the daemon listens, by door."""

    smtp: tuple[str, int] | None = None
    others: Mapping[str, str] = field(default_factory=dict)
    """Of all others: ``HOST:PORT`` or ``unix:PATH``."""

    def as_text(self) -> dict[str, str]:
        """All of them as text, for the log."""
        smtp = {"smtp": str(TcpListenAddress(*self.smtp))} if self.smtp else {}
        return {**smtp, **self.others}


def listen_addresses(settings: Settings) -> dict[str, ListenAddress]:
    """Where each open door listens, as the settings say."""
    listeners = settings.listeners
    found: dict[str, ListenAddress] = {}
    if listeners.smtp:
        found["smtp"] = TcpListenAddress(listeners.smtp.listen.host, listeners.smtp.listen.port)
    if listeners.http:
        found["http"] = listen_address(listeners.http)
    if listeners.spamd:
        found["spamd"] = listen_address(listeners.spamd)
    if listeners.metrics:
        found["metrics"] = TcpListenAddress(listeners.metrics.listen.host, listeners.metrics.listen.port)
    return found


def open_sockets(
    places: Mapping[str, ListenAddress], make: Callable[[ListenAddress], socket.socket] = open_listening_socket
) -> ListenerSockets:
    """A socket for each place, and for the door of mail one for each address that its host has.

    Raises ``CannotStart``; then none is left open.
    """
    found: dict[str, list[socket.socket]] = {}
    try:
        for name, where in places.items():
            with _naming_listener(name, where):
                single = resolve_host(where) if name == "smtp" and isinstance(where, TcpListenAddress) else [where]
                sockets = found.setdefault(name, [])
                for each in single:
                    sockets.append(make(each))
    except BaseException:
        close_sockets(found)
        raise
    return found


def close_sockets(sockets: ListenerSockets) -> None:
    """Close them all."""
    for each in sockets.values():
        for one in each:
            one.close()


def unix_socket_inodes(places: Mapping[str, ListenAddress]) -> UnixSocketInodes:
    """The names that the sockets made for ``places`` have in the file system; a closed one keeps its own."""
    paths = [where.path for where in places.values() if isinstance(where, UnixListenAddress)]
    return {path: path.stat().st_ino for path in paths}


def remove_unix_sockets(names: UnixSocketInodes) -> None:
    """Remove those that are still ours: another program may have put a socket of its own there."""
    for path, inode in names.items():
        with suppress(OSError):
            if path.stat().st_ino == inode:
                path.unlink()


def bound_addresses(places: Mapping[str, ListenAddress], sockets: ListenerSockets) -> BoundAddresses:
    """Where these sockets, made for ``places``, listen: with the ports that the system chose."""
    smtp = sockets["smtp"][0].getsockname()[:2] if "smtp" in sockets else None
    others = {name: bound_address(places[name], found[0]) for name, found in sockets.items() if name != "smtp"}
    return BoundAddresses(smtp, others)


@contextmanager
def _naming_listener(name: str, where: ListenAddress) -> Iterator[None]:
    """Say which door could not be opened."""
    try:
        yield
    except OSError as error:
        text = f"listeners.{name}.listen: cannot listen on {where}: {error.strerror}"
        raise CannotStart(text) from error
