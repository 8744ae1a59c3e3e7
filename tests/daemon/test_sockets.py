"""Addresses that a supervisor reserves for its workers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nbstream.addresses import TcpAddress
from nbstream.daemon import config
from nbstream.daemon.sockets import ListenerSockets, close_sockets
from nbstream.errors import CannotStart
from nbstream.server.sockets import open_listening_socket

MANY = 60  # connections: the chance that one of two sockets gets none of them is 2 ** -59


@pytest.fixture
def settings(tmp_path: Path) -> config.Settings:
    file = tmp_path / "nb.yaml"
    file.write_text(
        f"listeners: {{smtp: {{listen: '127.0.0.1:0'}}, http: {{listen: 'unix:{tmp_path / 'http.sock'}'}}}}\n"
    )
    return config.load_settings(file)


def reserved_sockets(settings: config.Settings) -> ListenerSockets:
    return ListenerSockets(settings, for_workers=True)


def give_back(sockets: ListenerSockets) -> None:
    sockets.close()
    sockets.remove_files()


@pytest.fixture
def shared_sockets(settings: config.Settings) -> Iterator[ListenerSockets]:
    reserved = reserved_sockets(settings)
    yield reserved
    give_back(reserved)


def smtp_address(shared_sockets: ListenerSockets) -> tuple[str, int]:
    """Where the SMTP listener is."""
    address = shared_sockets.bound_addresses["smtp"]
    assert isinstance(address, TcpAddress)
    return address.host, address.port


def accepted(listening: socket.socket) -> int:
    """How many connections wait there."""
    listening.setblocking(False)
    count = 0
    while True:
        try:
            listening.accept()[0].close()
        except BlockingIOError:
            return count
        count += 1


def test_connections_are_spread_over_those_that_share(shared_sockets: ListenerSockets) -> None:
    workers = [shared_sockets.open_for_worker(), shared_sockets.open_for_worker()]
    for worker_sockets in workers:
        worker_sockets["smtp"][0].listen(MANY)

    clients = [socket.create_connection(smtp_address(shared_sockets)) for _ in range(MANY)]

    accepted_counts = [accepted(worker_sockets["smtp"][0]) for worker_sockets in workers]
    assert (all(accepted_counts), sum(accepted_counts)) == (True, MANY)
    for client in clients:
        client.close()
    for worker_sockets in workers:
        close_sockets(worker_sockets)


def test_connections_are_refused_before_a_worker_listens(shared_sockets: ListenerSockets, tmp_path: Path) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(smtp_address(shared_sockets))
    with socket.socket(socket.AF_UNIX) as client, pytest.raises(ConnectionRefusedError):
        client.connect(str(tmp_path / "http.sock"))


def test_an_address_in_use_is_refused_with_its_key_also_where_others_share_it(
    shared_sockets: ListenerSockets,
) -> None:
    _, port = smtp_address(shared_sockets)
    other = config.Settings.model_validate(
        {"listeners": {"smtp": {"listen": f"127.0.0.1:{port}"}, "http": None}},
    )
    worker = shared_sockets.open_for_worker()
    worker["smtp"][0].listen()

    with pytest.raises(CannotStart, match=rf"listeners.smtp.listen: cannot listen on 127.0.0.1:{port}: "):
        reserved_sockets(other)
    with pytest.raises(OSError, match="in use"):
        open_listening_socket(TcpAddress("127.0.0.1", port))
    close_sockets(worker)


def test_at_the_end_the_unix_socket_is_removed_but_not_a_newer_one_in_its_place(
    settings: config.Settings, tmp_path: Path
) -> None:
    path = tmp_path / "http.sock"
    give_back(reserved_sockets(settings))
    assert not path.exists()

    first = reserved_sockets(settings)
    path.rename(tmp_path / "old")  # so that its inode is not used again
    path.write_text("")
    give_back(first)

    assert path.exists()
