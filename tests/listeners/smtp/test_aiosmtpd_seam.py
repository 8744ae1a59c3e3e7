"""What nbstream relies on in aiosmtpd beside its public interface.

A test that fails here after an update of aiosmtpd (or of Python, for its streams) says that
nbstream/listeners/smtp/aiosmtpd_seam.py has to be read again beside the new ``aiosmtpd/smtp.py``.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiosmtpd.smtp import SMTP

from nbstream.listeners.smtp import aiosmtpd_seam
from nbstream.listeners.smtp.aiosmtpd_seam import AiosmtpdConnection
from nbstream.listeners.smtp.session import SmtpSession
from tests.waiting import DEADLINE_SECONDS

ADVICE = "aiosmtpd has changed: read nbstream/listeners/smtp/aiosmtpd_seam.py beside the new aiosmtpd/smtp.py"
IDLE_SECONDS = 300.0

pytestmark = pytest.mark.timeout(DEADLINE_SECONDS)


class Connection(AiosmtpdConnection):
    """Notes the calls of its hooks; aiosmtpd itself answers NOOP."""

    def __init__(self) -> None:
        super().__init__(None, hostname="mx.example", timeout=IDLE_SECONDS, loop=asyncio.get_running_loop())
        self.heard: list[str] = []
        self.ended = asyncio.Event()

    async def session_ended(self) -> None:
        self.heard.append("ended")
        self.ended.set()

    async def handle_exception(self, error: Exception) -> str:
        assert isinstance(error, asyncio.IncompleteReadError)
        self.close()
        return ""

    def idle_timeout_passed(self) -> None:
        self.heard.append("silent")


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Connection, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection after its greeting, and the client's streams."""
    made: list[Connection] = []

    def accept() -> Connection:
        made.append(Connection())
        return made[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        assert (await reader.readline()).startswith(b"220 mx.example")
        yield made[0], reader, writer
    finally:
        writer.close()
        server.close()


@pytest.mark.parametrize("name", ["_handle_client", "_reset_timeout", "_timeout_cb"])
def test_the_replaced_methods_exist_and_take_the_same_arguments(name: str) -> None:
    theirs, ours = getattr(SMTP, name, None), getattr(AiosmtpdConnection, name)

    assert theirs is not None, f"{name} is missing. {ADVICE}"
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters), ADVICE
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), ADVICE


async def test_a_connection_has_its_streams_and_its_timer_where_they_are_looked_for() -> None:
    async with connected() as (connection, _, _):
        assert isinstance(connection._reader, asyncio.StreamReader), ADVICE
        assert isinstance(connection._writer, asyncio.StreamWriter), ADVICE
        assert connection._timeout_handle is not None, ADVICE
        assert connection._timeout_duration == IDLE_SECONDS, ADVICE


async def test_what_is_put_back_is_read_first_and_a_line_is_seen_before_it_is_read() -> None:
    class Protocol(AiosmtpdConnection):
        def __init__(self) -> None:
            self._reader = asyncio.StreamReader()

    connection = Protocol()
    connection.reader.feed_data(b".\r")
    before = connection.has_line()
    connection.reader.feed_data(b"\n")
    connection.unread(b"\r\n")

    assert (before, connection.has_line()) == (False, True), ADVICE
    assert await connection.reader.readuntil(b"\r\n.\r\n") == b"\r\n.\r\n", ADVICE


async def test_every_command_starts_the_idle_time_again_with_one_timer_for_all() -> None:
    async with connected() as (connection, reader, writer):
        timer, connection._idle_deadline = connection._timeout_handle, 0.0
        writer.write(b"NOOP\r\n")
        await reader.readline()

        assert connection._idle_deadline > connection.loop.time() + IDLE_SECONDS / 2, ADVICE
        assert connection._timeout_handle is timer, ADVICE


async def test_the_timer_rings_only_when_the_idle_time_has_passed() -> None:
    async with connected() as (connection, _, _):
        connection._timeout_cb()
        connection.stop_idle_timer()
        assert connection._idle_deadline == math.inf
        connection._timeout_cb()
        assert connection.heard == []

        connection._idle_deadline = 0.0
        connection._timeout_cb()
        assert connection.heard == ["silent"], ADVICE


async def test_a_client_that_closes_its_side_is_answered_before_the_session_ends() -> None:
    async with connected() as (connection, reader, writer):
        writer.write(b"NOOP\r\nQUIT\r\n")
        writer.write_eof()

        assert await reader.readline() == b"250 OK\r\n", ADVICE
        assert (await reader.readline()).startswith(b"221 "), ADVICE
        await connection.ended.wait()
        assert connection.heard == ["ended"], ADVICE


async def test_the_session_ends_when_the_client_disconnects() -> None:
    async with connected() as (connection, _, writer):
        writer.transport.abort()
        await connection.ended.wait()

        assert connection.heard == ["ended"], ADVICE


async def test_only_the_seam_touches_private_parts_of_aiosmtpd() -> None:
    connection = Connection()
    private = {name for name in {*dir(SMTP), *vars(connection), "_reader", "_writer"} if name.startswith("_")}
    private -= {name for name in private if name.startswith("__")}
    folder = Path(aiosmtpd_seam.__file__).parent

    touched = [
        f"{path.name}:{node.lineno}: {node.attr}"
        for path in folder.glob("*.py")
        if path.name != Path(aiosmtpd_seam.__file__).name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private
    ]
    assert touched == []
    assert not {name for name in vars(SmtpSession) if not name.startswith("__")} & (private - {"_abc_impl"})
