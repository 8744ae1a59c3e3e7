"""Addresses that a parent holds for its workers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream import config
from nbstream.daemon import addresses
from nbstream.daemon.shared_sockets import SharedSockets
from nbstream.errors import CannotStart
from nbstream.listeners.sockets import TcpListenAddress, open_listening_socket

MANY = 60  # connections: that one of two sockets gets none of them is a chance of 2 ** -59


@pytest.fixture
def settings(tmp_path: Path) -> config.Settings:
    file = tmp_path / "nb.yaml"
    file.write_text(
        f"listeners: {{smtp: {{listen: '127.0.0.1:0'}}, http: {{listen: 'unix:{tmp_path / 'http.sock'}'}}}}\n"
    )
    return config.load_settings(file)


@pytest.fixture
def shares(settings: config.Settings) -> Iterator[SharedSockets]:
    found = SharedSockets(settings)
    yield found
    found.close()


def smtp_address(shares: SharedSockets) -> tuple[str, int]:
    """Where the SMTP listener is."""
    address = shares.bound_addresses["smtp"]
    assert isinstance(address, TcpListenAddress)
    return address.host, address.port


def accepted(one: socket.socket) -> int:
    """How many connections wait there."""
    one.setblocking(False)
    found = 0
    while True:
        try:
            one.accept()[0].close()
        except BlockingIOError:
            return found
        found += 1


def test_connections_are_spread_over_those_that_share(shares: SharedSockets) -> None:
    workers = [shares.open_for_worker(), shares.open_for_worker()]
    for each in workers:
        each["smtp"][0].listen(MANY)

    clients = [socket.create_connection(smtp_address(shares)) for _ in range(MANY)]

    found = [accepted(each["smtp"][0]) for each in workers]
    assert (all(found), sum(found)) == (True, MANY)
    for one in (*clients, *(one for each in workers for one in (*each["smtp"], *each["http"]))):
        one.close()


def test_nobody_is_let_in_before_a_worker_listens(shares: SharedSockets, tmp_path: Path) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(smtp_address(shares))
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(tmp_path / "http.sock"))


def test_an_address_in_use_is_refused_with_its_key_also_where_others_share_it(shares: SharedSockets) -> None:
    _, port = smtp_address(shares)
    other = config.Settings.model_validate(
        {"listeners": {"smtp": {"listen": f"127.0.0.1:{port}"}, "http": None}},
    )
    worker = shares.open_for_worker()
    worker["smtp"][0].listen()

    with pytest.raises(CannotStart, match=rf"listeners.smtp.listen: cannot listen on 127.0.0.1:{port}: "):
        SharedSockets(other)
    with pytest.raises(OSError, match="in use"):
        open_listening_socket(TcpListenAddress("127.0.0.1", port))
    addresses.close_sockets(worker)


def test_at_the_end_the_unix_socket_is_gone_but_not_a_newer_one_in_its_place(
    settings: config.Settings, tmp_path: Path
) -> None:
    path = tmp_path / "http.sock"
    SharedSockets(settings).close()
    assert not path.exists()

    first = SharedSockets(settings)
    path.rename(tmp_path / "old")  # so that its inode is not used again
    path.write_text("")
    first.close()

    assert path.exists()
