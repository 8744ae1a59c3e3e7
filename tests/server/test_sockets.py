"""Listening sockets: who may connect to a unix socket, and what may be replaced to make one."""

from __future__ import annotations

import errno
import grp
import os
import socket
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.addresses import ListenAddress, TcpAddress, UnixAddress
from nbstream.server.sockets import BACKLOG, open_listening_socket
from tests.harness.http_listener import open_http
from tests.harness.smtp_listener import open_smtp_listener
from tests.harness.spamd_listener import open_spamd

Listen = Callable[[ListenAddress], socket.socket]


@pytest.fixture
def listen() -> Iterator[Listen]:
    """``open_listening_socket``, whose sockets are closed at the end of the test."""
    with ExitStack() as stack:
        yield lambda address: stack.enter_context(open_listening_socket(address))


def reached(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


def refusal(address: ListenAddress) -> OSError:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - each test checks the message
        open_listening_socket(address)
    return caught.value


@pytest.mark.parametrize("mode", [0o600, 0o660, 0o666])
def test_a_unix_socket_has_its_permissions_whatever_the_umask(listen: Listen, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "listener.sock"
    before = os.umask(0o077)
    try:
        listen(UnixAddress(path, mode))
    finally:
        os.umask(before)

    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert reached(path)
    assert names(tmp_path) == ["listener.sock"]


def test_a_unix_socket_gets_its_group(listen: Listen, tmp_path: Path) -> None:
    others = [number for number in os.getgroups() if number != os.getegid()]
    if os.geteuid() == 0:
        others = [group.gr_gid for group in grp.getgrall() if group.gr_gid != os.getegid()]
    if not others:
        pytest.skip("this user has one group only")
    path = tmp_path / "listener.sock"

    listen(UnixAddress(path, 0o660, grp.getgrgid(others[0]).gr_name))

    assert path.stat().st_gid == others[0]


def test_a_group_that_the_socket_may_not_be_given_to_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "chown", refuse)
    refused = refusal(UnixAddress(tmp_path / "listener.sock", 0o660, grp.getgrgid(os.getegid()).gr_name))

    assert refused.strerror
    assert grp.getgrgid(os.getegid()).gr_name in refused.strerror
    assert "SystemCallFilter=@chown" in refused.strerror
    assert not list(tmp_path.iterdir())


def test_a_socket_of_a_killed_process_is_replaced(listen: Listen, tmp_path: Path) -> None:
    path = tmp_path / "listener.sock"
    open_listening_socket(UnixAddress(path)).close()
    assert path.is_socket()
    assert not reached(path)

    listen(UnixAddress(path))

    assert reached(path)


def test_nobody_is_refused_while_a_unix_socket_is_replaced(
    listen: Listen, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, rename, seen = tmp_path / "listener.sock", Path.rename, list[bool]()

    def rename_and_connect(source: Path, target: Path) -> Path:
        renamed = rename(source, target)
        seen.append(reached(target))
        return renamed

    monkeypatch.setattr(Path, "rename", rename_and_connect)
    listen(UnixAddress(path))

    assert seen == [True]


def test_a_socket_on_which_a_process_listens_is_not_replaced(listen: Listen, tmp_path: Path) -> None:
    path = tmp_path / "listener.sock"
    listen(UnixAddress(path))
    was = path.stat().st_ino

    assert refusal(UnixAddress(path)).errno == errno.EADDRINUSE
    assert path.stat().st_ino == was
    assert names(tmp_path) == ["listener.sock"]


def test_a_socket_of_a_busy_process_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "listener.sock"
    with ExitStack() as stack:
        busy = stack.enter_context(socket.socket(socket.AF_UNIX))
        busy.bind(str(path))
        busy.listen(0)
        while True:  # fill the queue of those that wait to be accepted
            client = stack.enter_context(socket.socket(socket.AF_UNIX))
            client.setblocking(False)
            if client.connect_ex(str(path)):
                break

        assert refusal(UnixAddress(path)).errno == errno.EADDRINUSE
        assert names(tmp_path) == ["listener.sock"]


@pytest.mark.parametrize("kind", ["file", "folder", "link"])
def test_a_file_that_is_no_socket_is_never_replaced(tmp_path: Path, kind: str) -> None:
    path, precious = tmp_path / "listener.sock", tmp_path / "precious"
    precious.write_text("mine")
    match kind:
        case "file":
            path.write_text("mine")
        case "folder":
            path.mkdir()
        case _:
            path.symlink_to(precious)
    was = path.lstat()

    refused = refusal(UnixAddress(path))

    assert refused.strerror == "a file that is no socket is there"
    assert path.lstat() == was
    assert precious.read_text() == "mine"


def test_a_port_in_use_is_an_error(listen: Listen) -> None:
    taken = listen(TcpAddress("127.0.0.1", 0)).getsockname()[1]

    assert refusal(TcpAddress("127.0.0.1", taken)).errno == errno.EADDRINUSE


def backlog_of(port: int) -> int:
    """How many connections may wait at the socket of this process that listens on the port (tcp(7), TCP_INFO)."""
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError), socket.socket(fileno=os.dup(int(descriptor.name))) as opened:
            is_listening = opened.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)
            if is_listening and opened.family == socket.AF_INET and opened.getsockname()[1] == port:
                info = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
                return int.from_bytes(info[28:32], sys.byteorder)  # tcpi_sacked, of a socket that listens
    raise AssertionError("no socket listens on this port")


async def test_connections_wait_for_every_listener_alike(client: Redis, tmp_path: Path) -> None:
    async with (
        open_smtp_listener(client, tmp_path / "m") as smtp,
        open_spamd(client) as spamd,
        open_http(client, tmp_path) as http,
    ):
        ports = [smtp.port, spamd.port, int(http.address.rpartition(":")[2])]

        backlogs = {backlog_of(port) for port in ports}

    assert backlogs == {min(BACKLOG, int(Path("/proc/sys/net/core/somaxconn").read_text()))}
