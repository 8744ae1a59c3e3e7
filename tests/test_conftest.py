"""The loop that tests run on."""

from __future__ import annotations

import asyncio
import socket

import pytest

from tests.conftest import Loop
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
