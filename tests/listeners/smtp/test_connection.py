"""One SMTP connection below its commands, and what it relies on in aiosmtpd beside its public interface.

A test that fails here after an update of aiosmtpd says that nbstream/listeners/smtp/connection.py has to be read
again beside the new ``aiosmtpd/smtp.py``.
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

from nbstream.delivery.next_hop import SmtpReply
from nbstream.listeners.smtp import connection as connection_module
from nbstream.listeners.smtp.connection import SmtpConnection
from nbstream.server.limits import ListenerLimits
from tests.harness.waiting import DEADLINE_SECONDS

ADVICE = "aiosmtpd has changed: read nbstream/listeners/smtp/connection.py beside the new aiosmtpd/smtp.py"
LIMITS = ListenerLimits(idle_timeout_seconds=300.0, message_timeout_seconds=math.inf)

pytestmark = pytest.mark.timeout(DEADLINE_SECONDS)


class Session(SmtpConnection):
    """Notes what its connection says, and answers what it gets with what it read."""

    def __init__(self, limits: ListenerLimits = LIMITS) -> None:
        super().__init__("smtp", "mx.example", "ESMTP", limits)
        self.heard: list[str] = []
        self.ended = asyncio.Event()

    async def smtp_SAY(self, argument: str | None) -> None:
        await self.send_reply(SmtpReply(250, repr(argument)), grouped=True)

    async def smtp_READ(self, argument: str | None) -> None:
        content, is_whole = await self.read_until(b"\r\n.\r\n")
        await self.send_reply(SmtpReply(250, f"{len(content)} {is_whole}"))

    async def smtp_FAIL(self, argument: str | None) -> None:
        raise ValueError(argument)

    async def smtp_WAIT(self, argument: str | None) -> None:
        self.stop_timers()
        await self.send_reply(SmtpReply(250, "waits"))

    async def begin(self) -> None:
        self.heard.append("begun")

    async def end(self) -> None:
        self.heard.append("ended")
        self.ended.set()

    async def handle_exception(self, error: Exception) -> str:
        return f"451 {type(error).__name__}"


@asynccontextmanager
async def connected(
    limits: ListenerLimits = LIMITS,
) -> AsyncIterator[tuple[Session, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection after its greeting, and the client's streams."""
    made: list[Session] = []

    def accept() -> SmtpConnection:
        made.append(Session(limits))
        return made[-1]

    server = await asyncio.get_running_loop().create_server(accept, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    try:
        assert await reader.readline() == b"220 mx.example ESMTP\r\n"
        yield made[0], reader, writer
    finally:
        writer.close()
        server.close()


@pytest.mark.parametrize("name", ["_handle_client", "_reset_timeout", "_timeout_cb", "push"])
def test_the_replaced_methods_exist_and_take_the_same_arguments(name: str) -> None:
    theirs, ours = getattr(SMTP, name, None), getattr(SmtpConnection, name)

    assert theirs is not None, f"{name} is missing. {ADVICE}"
    assert list(inspect.signature(theirs).parameters) == list(inspect.signature(ours).parameters), ADVICE
    assert inspect.iscoroutinefunction(theirs) == inspect.iscoroutinefunction(ours), ADVICE


async def test_a_connection_has_its_timer_where_it_is_looked_for_and_every_command_moves_its_deadline() -> None:
    async with connected() as (connection, reader, writer):
        timer, connection._idle_deadline = connection._timeout_handle, 0.0
        assert timer is not None, ADVICE
        assert connection._timeout_duration == LIMITS.idle_timeout_seconds, ADVICE

        writer.write(b"NOOP\r\n")
        assert await reader.readline() == b"250 OK\r\n"

        assert connection._idle_deadline > connection.loop.time() + LIMITS.idle_timeout_seconds / 2, ADVICE
        assert connection._timeout_handle is timer, ADVICE


@pytest.mark.parametrize(
    ("line", "reply"),
    [
        (b"NOOP\r\n", b"250 OK\r\n"),
        (b"HELO x\r\n", b"250 mx.example\r\n"),
        (b"HELO\r\n", b"501 Syntax: HELO hostname\r\n"),
        (b"EXPN x\r\n", b"502 EXPN not implemented\r\n"),
        (b"HELP nope\r\n", b"501 Supported commands: AUTH DATA EHLO HELO HELP MAIL NOOP QUIT RCPT RSET VRFY\r\n"),
        (b"QUIT x\r\n", b"501 Syntax: QUIT\r\n"),
        (b"SAY\r\n", b"250 None\r\n"),
        (b"say  Some thing \n", b"250 'Some thing'\r\n"),
        (b"SAY \xff\r\n", b"250 '\\udcff'\r\n"),
        (b"FAIL now\r\n", b"451 ValueError\r\n"),
        (b"\r\n", b"500 Error: bad syntax\r\n"),
        (b"S\xc3\x84Y x\r\n", b"500 Error: bad syntax\r\n"),
        (b"SAY " + b"x" * 4092 + b"\r\n", b"250 '" + b"x" * 4092 + b"'\r\n"),
        (b"SAY " + b"x" * 4093 + b"\r\n", b"500 Command line too long\r\n"),
        (b"SAY " + b"x" * 1_000_000 + b"\r\n", b"500 Command line too long\r\n"),
        (b"nope x\r\n", b'500 Error: command "NOPE" not recognized\r\n'),
    ],
)
async def test_a_line_is_a_command_or_is_refused_and_the_next_line_is_a_command_again(
    line: bytes, reply: bytes
) -> None:
    async with connected() as (_, reader, writer):
        writer.write(line)
        assert await reader.readline() == reply

        writer.write(b"SAY on\r\n")
        assert await reader.readline() == b"250 'on'\r\n"


async def test_the_fifth_unknown_command_ends_the_connection() -> None:
    async with connected() as (session, reader, writer):
        writer.write(b"X\r\n" * 6 + b"SAY on\r\n")

        replies = (await reader.read()).splitlines()
        assert [reply[:4] for reply in replies] == [b"500 "] * 4 + [b"502 "]
        await session.ended.wait()


async def test_quit_ends_the_session_and_cancels_nothing_that_does_not_wait() -> None:
    async with connected() as (session, reader, writer):
        writer.write(b"SAY a\r\nQUIT\r\nSAY b\r\n")

        assert await reader.read() == b"250 'a'\r\n221 Bye\r\n"
        await session.ended.wait()
        assert session.heard == ["begun", "ended"]


async def test_content_ends_with_its_end_and_the_next_command_follows() -> None:
    async with connected() as (_, reader, writer):
        writer.write(b"READ\r\nabc\r\n.\r\nSAY on\r\n")

        assert await reader.readline() == b"250 8 True\r\n"
        assert await reader.readline() == b"250 'on'\r\n"


async def test_long_content_is_read_in_pieces_of_which_none_cuts_the_end() -> None:
    connection = Session()
    connection.data_received(b"x" * 70_000 + b"\r\n.\r")
    assert await connection.read_until(b"\r\n.\r\n") == (b"x" * 70_000, False)

    connection.data_received(b"\nQUIT")
    assert await connection.read_until(b"\r\n.\r\n") == (b"\r\n.\r\n", True)


async def test_what_is_put_back_is_read_first() -> None:
    connection = Session()
    connection.data_received(b".\r")
    before = connection.has_line
    connection.data_received(b"\n")
    connection.unread(b"\r\n")

    assert (before, connection.has_line) == (False, True)
    assert await connection.read_until(b"\r\n.\r\n") == (b"\r\n.\r\n", True)


async def test_a_client_that_closes_its_side_is_answered_before_the_session_ends() -> None:
    async with connected() as (session, reader, writer):
        writer.write(b"SAY a\r\nSAY b\r\nSAY")
        writer.write_eof()

        assert await reader.read() == b"250 'a'\r\n250 'b'\r\n"
        await session.ended.wait()
        assert session.heard == ["begun", "ended"]


async def test_the_session_ends_when_the_client_disconnects() -> None:
    async with connected() as (session, _, writer):
        writer.transport.abort()
        await session.ended.wait()

        assert session.heard.count("ended") == 1


async def test_commands_move_the_idle_deadline_and_a_client_that_is_waited_upon_has_none() -> None:
    async with connected(ListenerLimits(idle_timeout_seconds=1, message_timeout_seconds=1)) as (
        _,
        reader,
        writer,
    ):
        writer.write(b"WAIT\r\n")
        assert await reader.readline() == b"250 waits\r\n"
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await reader.read()

        writer.write(b"SAY\r\n")
        assert await reader.readline() == b"250 None\r\n"
        assert await reader.read() == b""


async def test_no_other_module_touches_private_parts_of_aiosmtpd() -> None:
    made = Session()
    private = {name for name in {*dir(SMTP), *vars(made)} if name.startswith("_")}
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
