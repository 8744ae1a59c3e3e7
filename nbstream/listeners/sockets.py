"""Listening sockets of the doors: TCP, or a unix socket with its permissions.

Rules: a unix socket is made under a name of its own with its final permissions, and then renamed: nobody connects
before they hold. A socket that is left from a killed process is replaced, one that somebody listens on is not.
"""

from __future__ import annotations

import errno
import grp
import os
import secrets
import socket
import stat
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BACKLOG = 512  # connections that wait for their turn


@dataclass(frozen=True, slots=True)
class TcpListenAddress:
    """A host and a port; port 0 lets the system choose."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class UnixListenAddress:
    """A path, the permissions of the socket there, and the name of its group; None leaves the group as it is."""

    path: Path
    mode: int = 0o660
    group: str | None = None

    def __str__(self) -> str:
        return f"unix:{self.path}"


ListenAddress = TcpListenAddress | UnixListenAddress


def open_listening_socket(place: ListenAddress) -> socket.socket:
    """A socket that listens there, not blocking. Raises ``OSError``; a group that is not there is one too."""
    found = _listen_on_tcp(place) if isinstance(place, TcpListenAddress) else _bind_unix(place)
    found.setblocking(False)
    return found


def reserve_address(place: ListenAddress) -> socket.socket:
    """A socket that is bound there and does not listen: the address is for those that ``shared`` makes, alone.

    Raises ``OSError`` as ``open_listening_socket`` does.
    """
    if isinstance(place, UnixListenAddress):
        return _bind_unix(place, listen=False)
    family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    found = _bind_tcp(family, address)
    # Only now: bound with it, a second daemon would get in, and silently a share of the connections.
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return found


def socket_at_same_address(held: socket.socket) -> socket.socket:
    """One more socket at the address of ``held``, not listening yet.

    Of TCP it is one of its own, which the kernel gives a share of the connections once it listens
    (SO_REUSEPORT). A unix socket is the same one.
    """
    if held.family == socket.AF_UNIX:
        return held.dup()
    return _bind_tcp(held.family, held.getsockname(), shared=True)


def _bind_tcp(family: int, address: tuple[Any, ...], *, shared: bool = False) -> socket.socket:
    """A TCP socket bound as ``socket.create_server`` binds it, which would also have it listen."""
    found = socket.socket(family, socket.SOCK_STREAM)
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            found.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        found.bind(address)
    except BaseException:
        found.close()
        raise
    return found


def bound_address(address: ListenAddress, listening: socket.socket) -> ListenAddress:
    """Return where a socket that was made for ``address`` listens: with the port that the system chose."""
    if isinstance(address, UnixListenAddress):
        return address  # the socket itself knows only the name that it was made under
    host, port = listening.getsockname()[:2]
    return TcpListenAddress(host, port)


def resolve_host(place: TcpListenAddress) -> list[ListenAddress]:
    """The addresses that the host of ``place`` has: localhost may have two. Raises ``OSError``."""
    found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(TcpListenAddress(str(address[0]), place.port) for *_, address in found))


def _listen_on_tcp(place: TcpListenAddress) -> socket.socket:
    family, _, _, _, address = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)[0]
    return socket.create_server(address[:2], family=family, backlog=BACKLOG, reuse_port=False)


def _bind_unix(place: UnixListenAddress, *, listen: bool = True) -> socket.socket:
    if _is_in_use(place.path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    group = _group_id(place.group)
    draft = place.path.with_name(f".{secrets.token_hex(4)}")  # no longer than a name may be
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.bind(str(draft))
        try:
            draft.chmod(place.mode)
            if group is not None:
                os.chown(draft, -1, group)
            if listen:
                found.listen(BACKLOG)
            draft.rename(place.path)
        except BaseException:
            draft.unlink(missing_ok=True)
            raise
    except BaseException:
        found.close()
        raise
    return found


def _is_in_use(path: Path) -> bool:
    """True where somebody listens; a file that is no socket is an error, or it would be replaced."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:  # somebody who is too busy to accept
            return True
    return True


def _group_id(name: str | None) -> int | None:
    try:
        return None if name is None else grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise OSError(errno.EINVAL, f"there is no group {name}") from error
