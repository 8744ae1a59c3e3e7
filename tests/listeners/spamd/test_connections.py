"""The spamd door's connections: cut, broken, too many, silent, draining."""

from __future__ import annotations

import asyncio
import resource
import tracemalloc
import zlib
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from redis.asyncio import Redis

from nbstream.listeners.spamd import listener
from tests.listeners.spamd.spamd_listener import HAM, SPAM, SpamdDoor, open_spamd, request, tell
from tests.mutation import mutations
from tests.waiting import DEADLINE_SECONDS, until

OK = b"SPAMD/1.1 0 EX_OK\r\n"
CLOSING = b"SPAMD/1.0 69 Service Unavailable: closing down\r\n"


@pytest.fixture
async def door(client: Redis) -> AsyncIterator[SpamdDoor]:
    async with open_spamd(client) as opened:
        yield opened
        await opened.rested()


@pytest.fixture
def many_files() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(4096, hard), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def test_one_byte_at_a_time(door: SpamdDoor) -> None:
    data = request("CHECK")
    assert (await door.ask(*(data[place : place + 1] for place in range(len(data))))).startswith(OK)


@pytest.mark.parametrize("unix", [False, True])
@pytest.mark.parametrize("abruptly", [False, True])
async def test_a_client_that_goes_away_at_any_byte(
    client: Redis, tmp_path: Path, unix: bool, abruptly: bool
) -> None:
    data = tell("spam", b"Subject: x\r\n\r\nprize\r\n")
    async with open_spamd(client, tmp_path / "s.sock" if unix else None) as door:
        for length in range(len(data)):
            _, writer = await door.connect()
            writer.write(data[:length])
            await writer.drain()
            writer.transport.abort() if abruptly else writer.close()
        await door.rested()

        assert door.learned == {"spam": 0, "ham": 0}
        assert b"DidSet" in await door.ask(data)


async def test_a_client_that_goes_away_while_it_waits_is_learned_from(door: SpamdDoor) -> None:
    _, writer = await door.connect()
    writer.write(tell("spam"))
    await writer.drain()
    writer.close()

    await until(
        lambda: door.metric("nbstream_feedback_total", source="spamd", label="spam", outcome="learned") == 1
    )


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\0" * 100_000, 76),
        (b"GET / HTTP/1.1\r\n\r\n", 76),
        (b"CHECK SPAMC/1.5\r\n" + b"X: x\r\n" * 10_000, 76),
        (b"CHECK SPAMC/1.5\r\nX: " + b"x" * 100_000, 76),
        (b"CHECK SPAMC/1.5\r\nContent-length: 99999999999\r\n\r\n", 65),
        (request("CHECK") + b"x", 76),
        (request("CHECK") + request("CHECK"), 76),
        (request("CHECK", "Compress: zlib"), 76),
    ],
    ids=range(8),
)
async def test_what_is_wrong_is_told_and_the_door_goes_on(door: SpamdDoor, data: bytes, code: int) -> None:
    answer = await door.ask(data, end=True)

    assert answer.startswith(f"SPAMD/1.0 {code} ".encode())
    assert answer.endswith(b"\r\n")
    assert answer.count(b"\n") == 1
    assert (await door.ask(request("CHECK"))).startswith(OK)


async def test_a_length_that_is_wrong_is_not_learned(door: SpamdDoor) -> None:
    assert (await door.ask(tell("spam") + b"more")).startswith(b"SPAMD/1.0 76 ")
    assert (await door.ask(tell("spam")[:-1], end=True)).startswith(b"SPAMD/1.0 76 ")

    assert door.learned == {"spam": 0, "ham": 0}


async def test_a_refused_client_that_sends_on_can_read_why(client: Redis) -> None:
    async with open_spamd(client, max_message_bytes=1 << 20) as door:
        reader, writer = await door.connect()
        writer.write(b"CHECK SPAMC/1.5\r\nContent-length: 1900000\r\n\r\n")
        writer.write(b"m" * 1_900_000)

        assert await door.finish(reader, writer, [], end=True) == b"SPAMD/1.0 65 Message too large\r\n"
        await door.rested()


async def test_a_refused_client_that_sends_for_ever_is_dropped(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_PATIENCE_SECONDS", 3600)
    async with open_spamd(client, max_message_bytes=1 << 16) as door:
        _, writer = await door.connect()

        async def send() -> None:
            while True:
                writer.write(b"\0" * (1 << 16))
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), DEADLINE_SECONDS)
        writer.close()
        await door.rested()


async def test_broken_messages_are_judged_like_others(door: SpamdDoor) -> None:
    await door.teach(("spam", SPAM), ("ham", HAM))
    for message in mutations([SPAM, HAM], 200):
        for command in ("PROCESS", "HEADERS"):
            assert (await door.ask(request(command, message=message))).startswith(OK)


async def test_a_large_message_is_given_back_whole(client: Redis) -> None:
    async with open_spamd(client) as door:
        large = SPAM + b"0123456789abcdef\n" * (1 << 20)

        assert (await door.ask(request("PROCESS", message=large))).endswith(b"\n" + large)
        await door.rested()


# Bounds


async def test_a_bomb_is_refused_and_nothing_of_it_is_kept(client: Redis) -> None:
    async with open_spamd(client, max_message_bytes=1 << 20) as door:
        bomb = request("CHECK", "Compress: zlib", message=zlib.compress(b"\0" * (200 << 20), 9))

        assert await door.ask(bomb) == b"SPAMD/1.0 65 Message too large\r\n"
        await door.rested()


@pytest.mark.parametrize("packed", [False, True])
async def test_mail_beyond_what_is_kept_in_memory_is_put_off(client: Redis, packed: bool) -> None:
    async with open_spamd(client, max_message_bytes=1 << 20, max_bytes_in_flight=1 << 20) as door:
        message = b"m" * (600 << 10)
        data = request("CHECK", message=message)
        _, writer = await door.connect()
        writer.write(data[:-1])
        await writer.drain()
        await until(lambda: door.listener.byte_budget.reserved == len(data) - 1)

        other = request("CHECK", "Compress: zlib", message=zlib.compress(message)) if packed else data
        answer = await door.ask(other)

        assert answer == b"SPAMD/1.0 75 Too much mail at once, please try again later\r\n"
        assert (await door.ask(request("CHECK"))).startswith(OK)
        writer.close()
        await door.rested()


async def test_nothing_is_kept_of_mail_that_was_put_off(client: Redis, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its bytes do not count any more, so that they would have no bound."""
    monkeypatch.setattr(listener, "_PATIENCE_SECONDS", 3600)
    async with open_spamd(client, max_message_bytes=2 << 20, max_bytes_in_flight=2 << 20) as door:
        tracemalloc.start()
        try:
            streams = []
            for _ in range(10):  # each is put off at its end
                reader, writer = await door.connect()
                writer.write(request("CHECK", message=b"m" * (2 << 20)))
                await writer.drain()
                assert (await reader.readline()).startswith(b"SPAMD/1.0 75 ")
                streams.append(writer)
            await until(lambda: door.listener.byte_budget.reserved == 0)
            assert tracemalloc.get_traced_memory()[0] < 4 << 20
        finally:
            tracemalloc.stop()
        for writer in streams:
            writer.close()
        await door.rested()


async def test_500_connections_at_once(client: Redis, many_files: None) -> None:
    async with open_spamd(client, max_connections=500) as door:
        opened = [await door.connect() for _ in range(500)]
        await until(lambda: len(door.listener.connections) == 500)

        answers = await asyncio.gather(*(door.finish(*each, [request("CHECK")]) for each in opened))

        assert {answer[: len(OK)] for answer in answers} == {OK}
        await door.rested()


async def test_connections_beyond_the_limit_are_told(client: Redis, many_files: None) -> None:
    async with open_spamd(client, max_connections=20) as door:
        first = [await door.connect() for _ in range(20)]
        await until(lambda: len(door.listener.connections) == 20)

        late = await asyncio.gather(*(door.ask(end=True) for _ in range(480)))
        served = await asyncio.gather(*(door.finish(*each, [request("CHECK")]) for each in first))

        assert set(late) == {b"SPAMD/1.0 69 Service Unavailable: too many connections\r\n"}
        assert {answer[: len(OK)] for answer in served} == {OK}
        await door.rested()
        assert (await door.ask(request("CHECK"))).startswith(OK)
        assert door.metric("nbstream_connections_total", listener="spamd", outcome="accepted") == 21
        assert door.metric("nbstream_connections_total", listener="spamd", outcome="refused") == 480


async def test_those_that_were_turned_away_take_no_place(client: Redis) -> None:
    async with open_spamd(client, max_connections=2) as door:
        served = [await door.connect() for _ in range(2)]
        await until(lambda: len(door.listener.connections) == 2)
        away = [await door.connect() for _ in range(2)]
        for reader, _ in away:
            assert (await reader.readline()).startswith(b"SPAMD/1.0 69 ")
        for each in served:
            assert (await door.finish(*each, [request("CHECK")])).startswith(OK)
        await until(lambda: len(door.listener.connections) == 2)  # they keep their connections, to read why

        assert (await door.ask(request("CHECK"))).startswith(OK)

        for _, writer in away:
            writer.close()
        await door.rested()


async def test_a_silent_client_is_told_and_let_go(client: Redis) -> None:
    async with open_spamd(client, idle_timeout_seconds=0.05) as door:
        answer = await door.ask(request("CHECK")[:-1])

        assert answer == b"SPAMD/1.0 79 Timeout: the request is not complete\r\n"
        await door.rested()


async def test_a_client_that_never_takes_its_answer_is_dropped(client: Redis) -> None:
    async with open_spamd(client, idle_timeout_seconds=0.5) as door:
        _, writer = await door.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]  # of every socket's transport
        writer.write(request("PROCESS", message=b"m" * (20 << 20)))
        await writer.drain()

        await door.rested()
        assert door.metric("nbstream_messages_total", listener="spamd", verdict="unsure") == 1
        writer.close()


# Draining


async def test_a_drain_lets_idle_clients_go_and_finishes_what_has_begun(client: Redis) -> None:
    async with open_spamd(client) as door:
        idle, (reader, writer) = await door.connect(), await door.connect()
        data = request("CHECK")
        writer.write(data[:10])
        await until(lambda: door.listener.byte_budget.reserved == 10)

        draining = asyncio.create_task(door.listener.drain(DEADLINE_SECONDS))

        assert await door.finish(*idle, []) == CLOSING
        assert not draining.done()
        assert (await door.finish(reader, writer, [data[10:]])).startswith(OK)
        await draining
        with pytest.raises(ConnectionRefusedError):
            await door.connect()


async def test_a_drain_does_not_wait_for_those_that_were_refused(
    client: Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_PATIENCE_SECONDS", 3600)
    async with open_spamd(client) as door:
        reader, writer = await door.connect()
        writer.write(b"nonsense\r\n")
        assert (await reader.readline()).startswith(b"SPAMD/1.0 76 ")

        await asyncio.wait_for(door.listener.drain(3600), DEADLINE_SECONDS)

        await door.rested()
        writer.close()


async def test_a_drain_ends_with_clients_that_do_not(client: Redis) -> None:
    async with open_spamd(client) as door:
        _, writer = await door.connect()
        writer.write(request("CHECK")[:10])
        await until(lambda: door.listener.byte_budget.reserved == 10)

        await door.listener.drain(0)

        await door.rested()
        writer.close()


async def test_a_request_that_is_dropped_before_its_work_begins_leaves_nothing(client: Redis) -> None:
    async with open_spamd(client) as door:
        _, writer = await door.connect()
        await until(lambda: bool(door.listener.connections))
        (visit,) = door.listener.connections

        visit.data_received(request("CHECK"))
        visit.abort()

        await door.rested()
        writer.close()
