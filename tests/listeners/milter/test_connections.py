"""Connections of the milter listener: cut, broken, too many, silent, aborted, reused, draining."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from nbstream.filter import Filter
from nbstream.listeners.milter.session import MilterSession
from tests.harness import milter_frames as wire
from tests.harness.milter_frames import Reply
from tests.harness.milter_listener import HAM, SPAM, MilterClient, RunningMilter, open_milter
from tests.harness.mutation import mutations
from tests.harness.runtimes import SPAM_ADDRESS, make_runtime
from tests.harness.waiting import DEADLINE_SECONDS, until

SESSION = [
    wire.negotiation(),
    wire.macros(b"C", {"{client_addr}": "127.0.0.1"}),
    wire.connect(),
    wire.macros(b"M", {"{auth_authen}": "ann"}),
    wire.mail(),
    wire.rcpt(f"<{SPAM_ADDRESS}>"),
    *wire.content(SPAM),
    wire.macros(b"E", {"i": "4ABC"}),
    wire.END,
    wire.QUIT,
]
BEFORE_END = len(b"".join(SESSION[:-2])) + 5  # the bytes with which the message is complete


@pytest.fixture
async def milter(client: Redis) -> AsyncIterator[RunningMilter]:
    async with open_milter(client) as running:
        yield running


async def rest(client: MilterClient) -> bytes:
    """All that the listener sends until it closes."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await client.reader.read()


async def waits_for_content(server: MilterClient, milter: RunningMilter) -> None:
    """Begin a message, and return when the listener has it."""
    await server.begin()
    assert (await server.ask(wire.header(b"Subject", b" x"), wire.frame(b"B", b"text\r\n"))).command == b"c"
    assert milter.listener.service.bytes_in_flight.reserved > 0


class SlowFilter:
    """A filter whose checks begin when they may."""

    def __init__(self, spam_filter: Filter) -> None:
        self.may_begin = asyncio.Event()
        self.waiting = asyncio.Event()
        self._filter = spam_filter

    async def score(self, *arguments: Any) -> Any:
        self.waiting.set()
        await self.may_begin.wait()
        return await self._filter.score(*arguments)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._filter, name)


def make_slow(milter: RunningMilter) -> SlowFilter:
    slow = SlowFilter(milter.opened_filter.spam_filter)
    milter.listener.apply(make_runtime(slow))  # type: ignore[arg-type]  # it has all that a filter has
    return slow


# Bytes


async def test_a_mail_server_that_leaves_at_any_byte_leaves_nothing_behind(client: Redis, tmp_path: Path) -> None:
    data = b"".join(SESSION)
    async with open_milter(client, tmp_path / "socket") as milter:
        for length in range(0, BEFORE_END, 3):
            server = await milter.connect()
            server.send(data[:length])
            server.close()
        await milter.wait_until_idle()
        assert milter.learned["spam"] == 0


async def test_a_lesson_is_finished_when_the_mail_server_has_left(milter: RunningMilter) -> None:
    server = await milter.connect()
    server.send(b"".join(SESSION[:-1]))
    await server.writer.drain()
    server.writer.transport.abort()

    await milter.wait_until_idle()
    assert milter.learned["spam"] in {0, 1}  # all of it, or none where the bytes went with the connection


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\0",
        b"\xff\xff\xff\xff",
        wire.mail(),
        wire.negotiation() + wire.rcpt(),
        wire.negotiation() + wire.END,
        wire.negotiation() + wire.mail() + wire.header(b"Subject", b"x"),
        wire.negotiation() + wire.mail() + wire.rcpt() + wire.frame(b"Z"),
    ],
)
async def test_what_breaks_the_protocol_ends_the_connection(milter: RunningMilter, data: bytes) -> None:
    client = await milter.connect()
    client.send(data)

    replies = wire.parse_replies(await rest(client))

    assert [reply.command for reply in replies] == ([b"O"] if data.startswith(wire.negotiation()) else [])
    await milter.wait_until_idle()


async def test_mutations_of_a_session_end_in_silence_or_well_formed_replies(milter: RunningMilter) -> None:
    for data in mutations([b"".join(SESSION)], 150):
        client = await milter.connect()
        client.send(data)
        client.writer.write_eof()
        wire.parse_replies(await rest(client))
        client.close()
    await milter.wait_until_idle()


# Messages of one connection


@pytest.mark.parametrize("steps", range(2, len(SESSION) - 2))
async def test_a_message_is_given_up_at_any_step(client: Redis, tmp_path: Path, steps: int) -> None:
    async with open_milter(client, tmp_path / "socket") as milter:
        server = await milter.server()
        begun = SESSION[1:steps]
        server.send(*begun)
        for frame in begun:
            if frame[4:5] == b"B":
                assert await server.reply() == Reply(b"c")
        server.send(wire.ABORT)

        assert (await server.deliver(HAM))[-1] == Reply(b"c")
        assert milter.learned["spam"] == 0
        assert milter.listener.service.bytes_in_flight.reserved == 0


# Limits of connections


@pytest.mark.parametrize("limit", ["idle_timeout_seconds", "message_timeout_seconds"])
async def test_a_mail_server_that_sends_nothing_more_is_disconnected(client: Redis, limit: str) -> None:
    limits: dict[str, Any] = {limit: 1}
    async with open_milter(client, **limits) as milter:
        server = await milter.server()
        await server.begin()
        server.send(wire.header(b"Subject", b" x"))

        assert await rest(server) == b""
        await milter.wait_until_idle()


async def test_a_mail_server_that_never_reads_is_disconnected_and_its_replies_fill_no_memory(
    client: Redis, tmp_path: Path
) -> None:
    async with open_milter(client, tmp_path / "socket", message_timeout_seconds=0.5) as milter:
        server = await milter.connect()
        server.writer.transport.pause_reading()  # type: ignore[attr-defined]  # of every socket's transport
        (session,) = await opened_sessions(milter)

        async def send_for_ever() -> None:
            while True:
                server.send(wire.negotiation() * 1000)
                await server.writer.drain()
                assert session.writer.transport.get_write_buffer_size() < 1 << 20  # nobody else knows it

        with pytest.raises(ConnectionError):
            async with asyncio.timeout(DEADLINE_SECONDS):
                await send_for_ever()
        await milter.wait_until_idle()


async def opened_sessions(milter: RunningMilter) -> list[MilterSession]:
    await until(lambda: bool(milter.listener.connections))
    return [session for session in milter.listener.connections if isinstance(session, MilterSession)]


async def test_unfinished_commands_count_among_the_bytes_in_flight(milter: RunningMilter) -> None:
    server = await milter.server()
    await server.begin()
    server.send(wire.frame(b"L", b"x" * 200_000)[:100_000])

    await until(lambda: milter.listener.service.bytes_in_flight.reserved >= 100_000)
    server.close()
    await milter.wait_until_idle()


# Draining


async def test_a_drain_closes_idle_connections_and_finishes_messages(milter: RunningMilter) -> None:
    idle, busy = await milter.server(), await milter.server()
    await waits_for_content(busy, milter)

    draining = asyncio.create_task(milter.listener.drain(DEADLINE_SECONDS))

    assert await rest(idle) == b""
    assert not draining.done()
    busy.send(wire.END)
    assert (await busy.answer())[-1] == Reply(b"c")
    await draining
    assert await rest(busy) == b""
    with pytest.raises(ConnectionRefusedError):
        await milter.connect()


async def test_a_drain_cancels_a_check_that_does_not_end(milter: RunningMilter) -> None:
    slow = make_slow(milter)
    server = await milter.server()
    await server.begin()
    server.send(*wire.content(HAM), wire.END)
    await slow.waiting.wait()

    await asyncio.wait_for(milter.listener.drain(0), DEADLINE_SECONDS)

    await milter.wait_until_idle()
