"""What nbstream relies on in aiosmtplib beside its public interface.

A test that fails here after an update of aiosmtplib says that nbstream/relay/aiosmtplib_seam.py, and
``NextHopConnection`` in nbstream/relay/smtp_connections.py, have to be read again beside the new
``aiosmtplib/protocol.py``.
"""

from __future__ import annotations

import ast
import asyncio
from collections.abc import Iterator
from pathlib import Path

import aiosmtplib
import pytest
from aiosmtplib.protocol import SMTPProtocol

from nbstream.relay import aiosmtplib_seam
from nbstream.relay.aiosmtplib_seam import has_unread_bytes, wait_for_room

ADVICE = "aiosmtplib has changed: read nbstream/relay/aiosmtplib_seam.py beside the new aiosmtplib/protocol.py"


class Transport(asyncio.Transport):
    """A transport that is open, and notes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return False


@pytest.fixture
async def protocol() -> SMTPProtocol:
    """The protocol of a connection whose greeting was read."""
    protocol = SMTPProtocol(asyncio.get_running_loop())
    protocol.connection_made(Transport())
    protocol.data_received(b"220 hi\r\n")
    await protocol.read_response()
    return protocol


async def read_when_it_comes(protocol: SMTPProtocol, data: bytes) -> aiosmtplib.SMTPResponse:
    """The reply that a command gets when the server sends ``data``."""
    reading = asyncio.create_task(protocol.read_response(timeout=None))
    await asyncio.sleep(0)
    protocol.data_received(data)
    return await reading


async def test_the_bytes_that_are_not_read_yet_are_where_they_are_looked_for(protocol: SMTPProtocol) -> None:
    assert hasattr(protocol, "_buffer"), ADVICE
    assert not has_unread_bytes(protocol), ADVICE


@pytest.mark.parametrize(("data", "unread"), [(b"250 ok\r\n", False), (b"250 ok\r\n250 again\r\n", True)])
async def test_a_second_reply_is_seen_after_the_first(protocol: SMTPProtocol, data: bytes, unread: bool) -> None:
    assert await read_when_it_comes(protocol, data) == (250, "ok"), ADVICE
    assert has_unread_bytes(protocol) == unread, ADVICE


async def test_what_comes_while_nobody_reads_is_dropped(protocol: SMTPProtocol) -> None:
    protocol.data_received(b"421 too late\r\n")

    assert not has_unread_bytes(protocol), ADVICE
    assert await read_when_it_comes(protocol, b"250 ok\r\n") == (250, "ok"), ADVICE


async def test_a_writer_waits_while_the_transport_is_full(protocol: SMTPProtocol) -> None:
    await wait_for_room(protocol)
    protocol.pause_writing()
    waiting = asyncio.create_task(wait_for_room(protocol))
    await asyncio.sleep(0)
    assert not waiting.done(), ADVICE
    protocol.resume_writing()
    await waiting


async def test_a_writer_does_not_wait_for_a_connection_that_is_lost(protocol: SMTPProtocol) -> None:
    protocol.pause_writing()
    waiting = asyncio.create_task(wait_for_room(protocol))
    await asyncio.sleep(0)
    protocol.connection_lost(ConnectionResetError())
    with pytest.raises(ConnectionResetError):
        await waiting


async def test_a_command_is_written_at_once(protocol: SMTPProtocol) -> None:
    transport = protocol.transport
    assert isinstance(transport, Transport)

    protocol.write(b"NOOP\r\n")

    assert transport.written == [b"NOOP\r\n"], ADVICE


def test_only_the_seam_touches_private_parts_of_other_objects() -> None:
    seam = Path(aiosmtplib_seam.__file__)

    def touched(path: Path) -> Iterator[str]:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_"):
                owner = node.value
                if not (isinstance(owner, ast.Name) and owner.id in {"self", "cls"}):
                    yield f"{path.name}:{node.lineno}: {node.attr}"

    assert [name for path in seam.parent.glob("*.py") if path != seam for name in touched(path)] == []
