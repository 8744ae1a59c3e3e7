"""Connections of the spamd listener: cut, broken, too many, silent, draining."""

from __future__ import annotations

import asyncio
import resource
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.listeners.spamd import listener
from tests.harness.spamd_listener import RunningSpamdListener, open_spamd, request, tell
from tests.harness.waiting import DEADLINE_SECONDS, until

OK = b"SPAMD/1.1 0 EX_OK\r\n"
CLOSING = b"SPAMD/1.0 69 Service Unavailable: closing down\r\n"


@pytest.fixture
async def spamd(client: Redis) -> AsyncIterator[RunningSpamdListener]:
    async with open_spamd(client) as running:
        yield running
        await running.wait_until_idle()


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("abruptly", [False, True])
async def test_a_client_may_disconnect_at_any_byte(
    client: Redis, tmp_path: Path, unix: bool, abruptly: bool
) -> None:
    data = tell("spam", b"Subject: x\r\n\r\nprize\r\n")
    async with open_spamd(client, tmp_path / "s.sock" if unix else None) as spamd:
        for length in range(len(data)):
            _, writer = await spamd.connect()
            writer.write(data[:length])
            await writer.drain()
            writer.transport.abort() if abruptly else writer.close()
        await spamd.wait_until_idle()

        assert spamd.learned == {"spam": 0, "ham": 0}
        assert b"DidSet" in await spamd.ask(data)


async def test_a_lesson_is_learned_though_its_client_disconnects(spamd: RunningSpamdListener) -> None:
    _, writer = await spamd.connect()
    writer.write(tell("spam"))
    await writer.drain()
    writer.close()

    await until(
        lambda: spamd.metric("nbstream_feedback_total", source="spamd", label="spam", outcome="learned") == 1
    )


async def test_a_refused_client_that_sends_for_ever_is_disconnected(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_PATIENCE_SECONDS", 3600)
    async with open_spamd(client, max_message_bytes=1 << 16) as spamd:
        _, writer = await spamd.connect()

        async def send() -> None:
            while True:
                writer.write(b"\0" * (1 << 16))
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), DEADLINE_SECONDS)
        writer.close()
        await spamd.wait_until_idle()


# Limits


async def test_a_bomb_is_refused_and_its_bytes_are_released(client: Redis) -> None:
    async with open_spamd(client, max_message_bytes=1 << 20) as spamd:
        bomb = request("CHECK", "Compress: zlib", message=zlib.compress(b"\0" * (200 << 20), 9))

        assert await spamd.ask(bomb) == b"SPAMD/1.0 65 Message too large\r\n"
        await spamd.wait_until_idle()


@pytest.mark.parametrize("compressed", [False, True])
async def test_mail_beyond_the_bytes_in_flight_is_deferred(client: Redis, compressed: bool) -> None:
    async with open_spamd(client, max_message_bytes=1 << 20, max_bytes_in_flight=2 << 20) as spamd:
        message = b"m" * (600 << 10)
        data = request("CHECK", message=message)
        _, writer = await spamd.connect()
        writer.write(data[:-1])
        await writer.drain()
        await until(lambda: spamd.listener.service.bytes_in_flight.reserved == len(data) - 1)

        other = request("CHECK", "Compress: zlib", message=zlib.compress(message)) if compressed else data
        answer = await spamd.ask(other)

        assert answer == b"SPAMD/1.0 75 Too much mail at once, please try again later\r\n"
        assert (await spamd.ask(request("CHECK"))).startswith(OK)
        writer.close()
        await spamd.wait_until_idle()


async def test_connections_beyond_the_limit_are_refused(client: Redis, many_files: None) -> None:
    async with open_spamd(client, max_connections=20) as spamd:
        first = [await spamd.connect() for _ in range(20)]
        await until(lambda: len(spamd.listener.connections) == 20)
        assert spamd.metric("nbstream_connections_open", listener="spamd") == 20

        late = await asyncio.gather(*(spamd.ask(end=True) for _ in range(480)))
        served = await asyncio.gather(*(spamd.finish(*streams, [request("CHECK")]) for streams in first))

        assert set(late) == {b"SPAMD/1.0 69 Service Unavailable: too many connections\r\n"}
        assert {answer[: len(OK)] for answer in served} == {OK}
        await spamd.wait_until_idle()
        assert (await spamd.ask(request("CHECK"))).startswith(OK)
        assert spamd.metric("nbstream_connections_total", listener="spamd", outcome="accepted") == 21
        assert spamd.metric("nbstream_connections_total", listener="spamd", outcome="refused") == 480


async def test_a_silent_client_gets_a_timeout_and_is_disconnected(client: Redis) -> None:
    async with open_spamd(client, idle_timeout_seconds=0.05) as spamd:
        answer = await spamd.ask(request("CHECK")[:-1])

        assert answer == b"SPAMD/1.0 79 Timeout: the request is not complete\r\n"
        await spamd.wait_until_idle()


@pytest.mark.parametrize(
    "beginning", [b"", request("CHECK", message=b"m" * (1 << 20))[:100]], ids=["header", "message"]
)
async def test_a_request_that_trickles_in_has_one_deadline_for_all_of_it(client: Redis, beginning: bytes) -> None:
    async with open_spamd(client, message_timeout_seconds=0.2) as spamd:
        reader, writer = await spamd.connect()
        writer.write(beginning)
        answer = asyncio.create_task(reader.read())

        async with asyncio.timeout(DEADLINE_SECONDS):
            while not answer.done():
                if beginning or not spamd.listener.service.bytes_in_flight.reserved:
                    writer.write(b"P")
                await asyncio.sleep(0)  # lets the listener run

        assert answer.result() == b"SPAMD/1.0 79 Timeout: the request is not complete\r\n"
        writer.close()
        await spamd.wait_until_idle()


async def test_a_client_that_never_reads_its_answer_is_disconnected(client: Redis) -> None:
    async with open_spamd(client, idle_timeout_seconds=2) as spamd:
        _, writer = await spamd.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of every socket's transport
        writer.write(request("PROCESS", message=b"m" * (20 << 20)))
        await writer.drain()

        await spamd.wait_until_idle()
        assert spamd.metric("nbstream_messages_total", listener="spamd", verdict="unsure") == 1
        writer.close()


# Draining


async def test_a_drain_closes_idle_connections_and_finishes_requests(client: Redis) -> None:
    async with open_spamd(client) as spamd:
        idle, (reader, writer) = await spamd.connect(), await spamd.connect()
        data = request("CHECK")
        writer.write(data[:10])
        await until(lambda: spamd.listener.service.bytes_in_flight.reserved == 10)

        draining = asyncio.create_task(spamd.listener.drain(DEADLINE_SECONDS))

        assert await spamd.finish(*idle, []) == CLOSING
        assert not draining.done()
        assert (await spamd.finish(reader, writer, [data[10:]])).startswith(OK)
        await draining
        with pytest.raises(ConnectionRefusedError):
            await spamd.connect()
