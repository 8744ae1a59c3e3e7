"""Listening sockets of the listeners: TCP, or a unix socket with its permissions.

Rules: a unix socket is created under a temporary name with its final permissions, and then renamed: nobody can
connect before the permissions are in force. The socket of a killed process is replaced, but not a socket on which
a process listens.
"""

from __future__ import annotations

import errno
import grp
import os
import secrets
import socket
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from nbstream.addresses import ListenAddress, TcpAddress, UnixAddress

BACKLOG = 512  # connections that wait for their turn


def open_listening_socket(address: ListenAddress) -> socket.socket:
    """Return a socket that listens at ``address`` and does not block.

    Raises ``OSError``, also for a group that does not exist.
    """
    if isinstance(address, UnixAddress):
        listening = _bind_unix(address, listens=True)
    else:
        listening = reserve_address(address, for_one_socket=True)
        listening.listen(BACKLOG)
    listening.setblocking(False)
    return listening


def reserve_address(address: ListenAddress, *, for_one_socket: bool = False) -> socket.socket:
    """Return a socket that is bound to ``address`` and does not listen.

    It reserves the address for the sockets of ``socket_at_same_address``, which are duplicates of this one where
    it is a unix socket, or ``for_one_socket``. Raises ``OSError`` as ``open_listening_socket`` does.
    """
    if isinstance(address, UnixAddress):
        return _bind_unix(address, listens=False)
    family, _, _, _, resolved = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)[0]
    reserved = _bind_tcp(family, resolved)
    # Not before bind: a second daemon could bind too, and would get a part of the connections unnoticed.
    reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, not for_one_socket)
    return reserved


def socket_at_same_address(reserved: socket.socket) -> socket.socket:
    """Return one more socket at the address of ``reserved``, which does not listen yet.

    It is a new one, to which the kernel gives a part of the connections once it listens (SO_REUSEPORT), or a
    duplicate of the only one.
    """
    if not reserved.getsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT):
        return reserved.dup()
    return _bind_tcp(reserved.family, reserved.getsockname(), shared=True)


def _bind_tcp(family: int, address: tuple[Any, ...], *, shared: bool = False) -> socket.socket:
    """Return a TCP socket, bound as ``socket.create_server`` does it, but not listening."""
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
    except BaseException:
        bound.close()
        raise
    return bound


def bound_address(address: ListenAddress, listening: socket.socket) -> ListenAddress:
    """Return where a socket that was made for ``address`` listens: with the port that the system chose."""
    if isinstance(address, UnixAddress):
        return address  # the socket itself knows only its temporary name
    host, port = listening.getsockname()[:2]
    return TcpAddress(host, port)


def resolve_host(address: TcpAddress) -> list[ListenAddress]:
    """Return all addresses of the host of ``address``: localhost may have two. Raises ``OSError``."""
    entries = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(TcpAddress(str(resolved[0]), address.port) for *_, resolved in entries))


def _bind_unix(address: UnixAddress, *, listens: bool) -> socket.socket:
    if _is_in_use(address.path):
        raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
    group = _group_id(address.group)
    # A short name, because the length of a socket's path is limited.
    temporary_path = address.path.with_name(f".{secrets.token_hex(4)}")
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        bound.bind(str(temporary_path))
        try:
            temporary_path.chmod(address.mode)
            if group is not None:
                _give_to_group(temporary_path, group, address.group)
            if listens:  # before it is in its place, where nobody is to be refused
                bound.listen(BACKLOG)
            temporary_path.rename(address.path)
        except BaseException:
            temporary_path.unlink(missing_ok=True)
            raise
    except BaseException:
        bound.close()
        raise
    return bound


def _give_to_group(path: Path, group: int, name: str | None) -> None:
    try:
        os.chown(path, -1, group)
    except PermissionError as error:
        text = f"it may not be given to the group {name}; let the user of nbstream be in that group"
        # A service that filters system calls refuses it to a member of the group, too.
        raise PermissionError(
            error.errno, f"{text}, and let the service use chown (SystemCallFilter=@chown)"
        ) from error


def _is_in_use(path: Path) -> bool:
    """Return whether a process listens at the path. Raises ``OSError`` for a file that is no socket."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise FileExistsError(errno.EEXIST, "a file that is no socket is there")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except BlockingIOError:  # a process listens, but is too busy to accept
            return True
    return True


def _group_id(name: str | None) -> int | None:
    try:
        return None if name is None else grp.getgrnam(name).gr_gid
    except KeyError as error:
        raise OSError(errno.EINVAL, f"there is no group {name}") from error
