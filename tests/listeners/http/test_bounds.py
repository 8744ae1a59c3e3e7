"""The HTTP listener with clients that are broken, slow, many or hostile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from redis.asyncio import Redis

from nbstream.server.http.listener import HttpConnection
from tests.harness.http_listener import PRIZE, RunningHttpListener, open_http, rest
from tests.harness.waiting import DEADLINE_SECONDS, until

CHECK = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s" % (
    len(PRIZE),
    PRIZE,
)
CHUNKED = b"POST /v1/check HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


@pytest.fixture
async def http(client: Redis, tmp_path: Path) -> AsyncIterator[RunningHttpListener]:
    async with open_http(client, tmp_path) as running:
        yield running


@pytest.fixture
async def impatient(client: Redis, tmp_path: Path) -> AsyncIterator[RunningHttpListener]:
    """A listener that waits for a second."""
    async with open_http(client, tmp_path, patience_seconds=1) as running:
        yield running


def status(answer: bytes) -> int:
    """The status of the first answer; 0 for none."""
    return int(answer.split(b" ", 2)[1]) if answer else 0


async def test_what_comes_at_once_is_read_in_small_turns(
    http: RunningHttpListener, monkeypatch: pytest.MonkeyPatch
) -> None:
    received = HttpConnection.data_received
    turns: list[int] = []

    def count(connection: HttpConnection, data: bytes) -> None:
        turns.append(len(data))
        received(connection, data)

    monkeypatch.setattr(HttpConnection, "data_received", count)
    message = PRIZE + b"prize " * 20_000
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in message)

    async with http.open() as (reader, writer):
        writer.write(CHUNKED + chunks + b"0\r\n\r\n")
        answer = await rest(reader)

    assert status(answer) == 200
    assert sum(turns) > 700_000
    assert max(turns) <= 16 << 10


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cuts=st.lists(st.integers(0, len(CHECK)), max_size=8))
async def test_any_split_of_a_request_gives_the_same_answer(http: RunningHttpListener, cuts: list[int]) -> None:
    async with http.open() as (reader, writer):
        for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), len(CHECK)], strict=True):
            writer.write(CHECK[start:end])
            await asyncio.sleep(0)  # lets the listener run
        answer = await rest(reader)

    assert (status(answer), b'"verdict":"unsure"' in answer) == (200, True)


async def test_a_client_may_disconnect_at_any_byte(http: RunningHttpListener) -> None:
    for length in range(len(CHECK) + 1):
        async with http.open() as (_, writer):
            writer.write(CHECK[:length])

    assert (await http.ask("/v1/check", PRIZE)).status == 200
    assert http.metric("nbstream_filter_failures_total", reason="error") == 0


@pytest.mark.parametrize(
    "garbage",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)),
        b"EHLO client.example.org\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /%s HTTP/1.1\r\n\r\n" % (b"x" * 100_000),
        b"GET / HTTP/1.1\r\nX: %s\r\n\r\n" % (b"x" * 100_000),
        b"GET / HTTP/1.1\r\n%s\r\n" % b"".join(b"X%d: y\r\n" % number for number in range(10_000)),
        b"POST /v1/check HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST /v1/check HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
        b"POST /v1/check HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        CHUNKED + b"not a size\r\nx\r\n",
        CHUNKED + b"ffffffffffffffffffff\r\nx",
    ],
    ids=range(12),
)
async def test_garbage_is_refused_and_said_nothing_of(
    impatient: RunningHttpListener, garbage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await impatient.raw(garbage)

    assert status(answer) in {400, 408}
    assert b"aiohttp" not in answer
    assert b"Traceback" not in answer
    assert "Traceback" not in caplog.text
    assert (await impatient.ask("/healthz")).status == 200


async def test_a_body_that_does_not_end_is_not_waited_for(impatient: RunningHttpListener) -> None:
    answer = await impatient.raw(CHECK[:-1])

    assert status(answer) == 408
    assert (await impatient.ask("/v1/check", PRIZE)).status == 200


async def test_a_client_that_never_reads_its_answers_is_disconnected(impatient: RunningHttpListener) -> None:
    async with impatient.open() as (_, writer):
        transport = cast("asyncio.Transport", writer.transport)
        transport.pause_reading()

        async def send() -> None:
            while True:
                writer.write(b"GET /v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 1000)
                await writer.drain()

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(send(), DEADLINE_SECONDS)


@pytest.mark.parametrize("body", [b"1\r\nx\r\n", b"1;" + b"e" * 1000 + b"\r\nx\r\n"], ids=["pieces", "extensions"])
async def test_a_body_that_trickles_in_has_one_deadline(impatient: RunningHttpListener, body: bytes) -> None:
    async with impatient.open() as (reader, writer):
        writer.write(CHUNKED)
        answer = asyncio.create_task(rest(reader))
        with suppress(OSError, RuntimeError):  # uvloop raises this one once the connection is closed
            while not answer.done():
                writer.write(body)
                await asyncio.sleep(0)  # lets the listener run

        (ended,), _ = await asyncio.wait([answer])
        # What came after the answer may have reset the connection before the answer was read.
        assert isinstance(ended.exception(), ConnectionError) or status(ended.result()) == 408


async def test_a_connection_too_many_is_answered_503(client: Redis, tmp_path: Path) -> None:
    def change(values: dict[str, Any]) -> None:
        values.setdefault("limits", {})["max_connections"] = 2

    async with open_http(client, tmp_path, change=change) as http, http.open() as first:
        async with http.open() as second:
            for reader, writer in (first, second):
                writer.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
                async with asyncio.timeout(DEADLINE_SECONDS):
                    assert status(await reader.readline()) == 200

            refused = await http.raw(b"")

            head, _, body = refused.partition(b"\r\n\r\n")
            assert status(refused) == 503
            assert b"Content-Length: %d\r\n" % len(body) in head
            assert http.metric("nbstream_connections_open", listener="http") == 2
            assert http.metric("nbstream_connections_total", listener="http", outcome="accepted") == 2
            assert http.metric("nbstream_connections_total", listener="http", outcome="refused") == 1

        await until(lambda: http.metric("nbstream_connections_open", listener="http") == 1)
        assert status(await http.raw(b"GET /healthz HTTP/1.0\r\n\r\n")) == 200


async def test_bytes_in_flight_are_bounded_over_all_connections(
    client: Redis, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nbstream.server.limits.MAX_BYTES_IN_FLIGHT", 2000)

    def change(values: dict[str, Any]) -> None:
        values.setdefault("limits", {}).update(max_message_bytes=1000)

    async with open_http(client, tmp_path, change=change) as http:
        async with http.open() as (reader, writer):
            writer.write(b"POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n" + b"x" * 899)

            async def full() -> bool:
                return (await http.ask("/v1/check", b"x" * 200)).status == 503

            await until(full)
            assert (await http.ask("/v1/check", b"x" * 100)).status == 200
            writer.write(b"x")
            async with asyncio.timeout(DEADLINE_SECONDS):
                assert status(await reader.readline()) == 200
        assert (await http.ask("/v1/check", b"x" * 1000)).status == 200


async def test_a_drain_lets_a_request_finish_and_takes_no_other(http: RunningHttpListener) -> None:
    async with http.open() as (reader, writer), http.open() as (idle, _):
        writer.write(CHECK[:-1])
        await until(lambda: bool(http.listener.answering))

        draining = asyncio.create_task(http.listener.drain(DEADLINE_SECONDS))
        assert await rest(idle) == b""
        with pytest.raises(OSError):  # noqa: PT011 - of whatever kind
            await http.raw(CHECK)
        writer.write(CHECK[-1:])
        answer = await rest(reader)
        await draining

    assert status(answer) == 200
