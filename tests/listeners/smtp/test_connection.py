"""What nbstream relies on in aiosmtpd beside its public interface.

A test that fails here after an update of aiosmtpd (or of Python, for its streams) says that
nbstream/listeners/smtp/connection.py has to be read again beside the new ``aiosmtpd/smtp.py``.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.smtp import SMTP

from nbstream.listeners.smtp import connection as connection_module
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.server.limits import ListenerLimits
from tests.waiting import DEADLINE_SECONDS

ADVICE = "aiosmtpd has changed: read nbstream/listeners/smtp/connection.py beside the new aiosmtpd/smtp.py"
IDLE_SECONDS = 300.0

pytestmark = pytest.mark.timeout(DEADLINE_SECONDS)


class Session:
    """Notes what its connection says; aiosmtpd itself answers NOOP."""

    commands: Mapping[str, Callable[[Any], Awaitable[None]]] = {}

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.ended = asyncio.Event()
        limits = ListenerLimits(idle_timeout_seconds=IDLE_SECONDS, message_timeout_seconds=math.inf)
        self.connection = SmtpConnection(self, "smtp", "mx.example", "ESMTP", limits)

    def opened(self) -> None:
        self.heard.append("opened")

    def closed(self) -> None: ...

    async def begin(self) -> None:
        self.heard.append("begun")

    async def end(self) -> None:
        self.heard.append("ended")
        self.ended.set()

    async def reply_to_fault(self, error: Exception) -> str:
        assert isinstance(error, asyncio.IncompleteReadError)
        self.connection.close()
        return ""


@asynccontextmanager
async def connected() -> AsyncIterator[tuple[Session, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection after its greeting, and the client's streams."""
    made: list[Session] = []

    def accept() -> SmtpConnection:
        made.append(Session())
        return made[-1].connection

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
    theirs, ours = getattr(SMTP, name, None), getattr(SmtpConnection, name)

    assert theirs is not None, f"{name} is missing. {ADVICE}"
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters), ADVICE
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), ADVICE


async def test_a_connection_has_its_streams_and_its_timer_where_they_are_looked_for() -> None:
    async with connected() as (session, _, _):
        connection = session.connection
        assert isinstance(connection._reader, asyncio.StreamReader), ADVICE
        assert isinstance(connection._writer, asyncio.StreamWriter), ADVICE
        assert connection._timeout_handle is not None, ADVICE
        assert connection._timeout_duration == IDLE_SECONDS, ADVICE


async def test_what_is_put_back_is_read_first_and_a_line_is_seen_before_it_is_read() -> None:
    class Protocol(SmtpConnection):
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
    async with connected() as (session, reader, writer):
        connection = session.connection
        timer, connection._idle_deadline = connection._timeout_handle, 0.0
        writer.write(b"NOOP\r\n")
        await reader.readline()

        assert connection._idle_deadline > connection.loop.time() + IDLE_SECONDS / 2, ADVICE
        assert connection._timeout_handle is timer, ADVICE


async def test_the_timer_rings_only_when_the_idle_time_has_passed() -> None:
    async with connected() as (session, reader, _):
        connection = session.connection
        connection._timeout_cb()
        connection.stop_timers()
        assert connection._idle_deadline == math.inf
        connection._timeout_cb()
        assert connection.transport is not None
        assert not connection.transport.is_closing()

        connection._idle_deadline = 0.0
        connection._timeout_cb()
        assert await reader.read() == b"", ADVICE


async def test_a_client_that_closes_its_side_is_answered_before_the_session_ends() -> None:
    async with connected() as (session, reader, writer):
        writer.write(b"NOOP\r\nQUIT\r\n")
        writer.write_eof()

        assert await reader.readline() == b"250 OK\r\n", ADVICE
        assert (await reader.readline()).startswith(b"221 "), ADVICE
        await session.ended.wait()
        assert session.heard == ["opened", "begun", "ended"], ADVICE


async def test_the_session_ends_when_the_client_disconnects() -> None:
    async with connected() as (session, _, writer):
        writer.transport.abort()
        await session.ended.wait()

        assert session.heard == ["opened", "begun", "ended"], ADVICE


async def test_no_other_module_touches_private_parts_of_aiosmtpd() -> None:
    made = Session().connection
    private = {name for name in {*dir(SMTP), *vars(made), "_reader", "_writer"} if name.startswith("_")}
    private -= {name for name in private if name.startswith("__")}
    own = Path(connection_module.__file__)

    touched = [
        f"{path.name}:{node.lineno}: {node.attr}"
        for path in own.parent.glob("*.py")
        if path != own
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in private and not _is_of_self(node)
    ]
    assert touched == []


def _is_of_self(node: ast.Attribute) -> bool:
    """Whether it is an attribute of the object itself, which is no connection in another module."""
    return isinstance(node.value, ast.Name) and node.value.id == "self"
