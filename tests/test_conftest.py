"""The loop that tests run on, and the Redis that they use."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

import pytest

from tests.conftest import Loop, RedisServer
from tests.integration.daemon import free_port


def test_what_is_left_open_is_closed_and_told() -> None:
    loop = Loop()
    address = ("127.0.0.1", free_port())
    loop.run_until_complete(loop.create_server(asyncio.Protocol, *address))

    with pytest.raises(AssertionError, match="left open: unclosed resource <TCPServer"):
        loop.close()

    assert loop.is_closed()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(address)


def test_a_loop_without_anything_open_closes_in_silence() -> None:
    loop = Loop()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
    assert loop.is_closed()


SLOW_SERVER = """\
#!{python}
import socket, sys, time
server = socket.socket(socket.AF_UNIX)
server.bind(sys.argv[sys.argv.index("--unixsocket") + 1])
time.sleep(0.3)  # bound, but not yet listening
server.listen()
time.sleep(60)
"""


def test_a_server_has_started_once_it_listens(tmp_path: Path) -> None:
    binary = tmp_path / "server"
    binary.write_text(SLOW_SERVER.format(python=sys.executable))
    binary.chmod(0o755)
    server = RedisServer(binary, tmp_path)

    server.start()

    with socket.socket(socket.AF_UNIX) as client:
        assert client.connect_ex(str(server.socket)) == 0
    server.stop()
