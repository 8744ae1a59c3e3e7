"""Clients that speak a listener's protocol over some connections at once: as fast as answered, or at a given rate.

A client is the same for both sides of a comparison. What it sends are the bytes of whole requests, made before the
clock runs.
"""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Protocol, Self

from tests.benchmarks.speed.processes import CannotMeasure

_PATIENCE_SECONDS = 30.0
_LINE_END = re.compile(rb"\r\n|\r|\n")


class Connection(Protocol):
    """A client's connection."""

    async def exchange(self, request: bytes) -> None:
        """Send one request and read its answer. Raises ``CannotMeasure`` for a bad answer."""

    def close(self) -> None:
        """Close the connection."""


Connect = Callable[[], Awaitable[Connection]]


@dataclass(slots=True)
class Load:
    """The result of a load: the seconds from the first request to the last answer, and the wait for each one."""

    seconds: float = 0.0
    waits: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """The answers per second."""
        return len(self.waits) / self.seconds


async def all_of(connect: Connect, requests: Iterable[bytes], connections: int) -> Load:
    """Send each request once, over that many connections, as fast as they are answered."""
    return await _busy(connect, iter(requests), connections, float("inf"))


async def for_seconds(connect: Connect, requests: Sequence[bytes], connections: int, seconds: float) -> Load:
    """Send the requests in turn for that many seconds, as fast as they are answered."""
    return await _busy(connect, itertools.cycle(requests), connections, seconds)


async def _busy(connect: Connect, requests: Iterable[bytes], connections: int, seconds: float) -> Load:
    opened = [await connect() for _ in range(connections)]
    waiting, load, started = iter(requests), Load(), time.perf_counter()

    async def work(connection: Connection) -> None:
        for request in waiting:
            begun = time.perf_counter()
            if begun - started >= seconds:
                return
            await _exchange(connection, request)
            load.waits.append(time.perf_counter() - begun)

    try:
        async with _together() as group:
            for connection in opened:
                group.create_task(work(connection))
    finally:
        for connection in opened:
            connection.close()
    load.seconds = time.perf_counter() - started
    return load


async def at_rate(
    connect: Connect, requests: Sequence[bytes], rate: float, seconds: float, *, connections: int = 32
) -> Load:
    """Send requests at random moments, ``rate`` a second on average, whether the former ones were answered or not.

    A wait begins when the request is handed on, also where all connections are busy then. That may be later than
    it was due, by what this process does besides and the loop's milliseconds: no wait of the server's.
    """
    idle: asyncio.LifoQueue[Connection] = asyncio.LifoQueue()
    for _ in range(connections):
        idle.put_nowait(await connect())
    load, generator, started = Load(), random.Random(7), time.perf_counter()

    async def one(request: bytes) -> None:
        begun = time.perf_counter()
        connection = await idle.get()
        try:
            await _exchange(connection, request)
        finally:
            idle.put_nowait(connection)
        load.waits.append(time.perf_counter() - begun)

    due, turn = 0.0, itertools.cycle(requests)
    try:
        async with _together() as group:
            while (due := due + generator.expovariate(rate)) < seconds:
                await asyncio.sleep(max(0.0, started + due - time.perf_counter()))
                group.create_task(one(next(turn)))
    finally:
        while not idle.empty():
            idle.get_nowait().close()
    load.seconds = time.perf_counter() - started
    return load


async def _exchange(connection: Connection, request: bytes) -> None:
    """Exchange one request; a broken connection or a missing answer raises ``CannotMeasure`` too."""
    try:
        await connection.exchange(request)
    except (OSError, EOFError, TimeoutError) as error:
        raise CannotMeasure(f"no answer: {type(error).__name__}: {error}") from error


@asynccontextmanager
async def _together() -> AsyncIterator[asyncio.TaskGroup]:
    """Run tasks; the first one that fails ends all, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


class _Streams:
    """The two ends of a TCP connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def to(cls, address: str) -> Self:
        """A connection to ``HOST:PORT`` or ``unix:PATH``."""
        async with asyncio.timeout(_PATIENCE_SECONDS):
            if address.startswith("unix:"):
                return cls(*await asyncio.open_unix_connection(address.removeprefix("unix:")))
            host, _, port = address.rpartition(":")
            return cls(*await asyncio.open_connection(host, int(port)))

    def close(self) -> None:
        """Close it, at once."""
        self.writer.close()


class Http:
    """Requests on a connection that is kept, unless the server closes it; any 2xx is a good answer."""

    def __init__(self, address: str, streams: _Streams) -> None:
        self._address = address
        self._streams: _Streams | None = streams

    @classmethod
    async def to(cls, address: str) -> Self:
        """A connection to ``HOST:PORT`` or ``unix:PATH``."""
        return cls(address, await _Streams.to(address))

    @staticmethod
    def request(path: str, message: bytes) -> bytes:
        """A POST of the message."""
        return b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b" % (
            path.encode(),
            len(message),
            message,
        )

    async def exchange(self, request: bytes) -> None:
        """One request and its answer, which has a Content-Length."""
        streams = self._streams = self._streams or await _Streams.to(self._address)
        streams.writer.write(request)
        async with asyncio.timeout(_PATIENCE_SECONDS):
            head = await streams.reader.readuntil(b"\r\n\r\n")
            _, _, rest = head.lower().partition(b"content-length:")
            body = await streams.reader.readexactly(int(rest.partition(b"\r\n")[0]))
        if b"\r\nconnection: close" in head.lower():
            self.close()
        if not head.startswith(b"HTTP/1.1 2"):
            raise CannotMeasure(f"HTTP: {head[:60]!r} {body[:100]!r}")

    def close(self) -> None:
        """Close the connection, at once."""
        if self._streams:
            self._streams.close()
        self._streams = None


class Spamd:
    """SpamAssassin's protocol: a connection for each request."""

    def __init__(self, address: str) -> None:
        self._address = address

    @staticmethod
    def request(message: bytes, command: str = "CHECK") -> bytes:
        """A request with the message."""
        return b"%b SPAMC/1.5\r\nContent-length: %d\r\n\r\n%b" % (command.encode(), len(message), message)

    async def exchange(self, request: bytes) -> None:
        """Connect, ask, and read to the end."""
        streams = await _Streams.to(self._address)
        try:
            streams.writer.write(request)
            async with asyncio.timeout(_PATIENCE_SECONDS):
                answer = await streams.reader.read(-1)
        finally:
            streams.close()
        if not (answer.startswith(b"SPAMD/1.") and b" 0 EX_OK" in answer and b"Spam: " in answer):
            raise CannotMeasure(f"spamd: {answer[:100]!r}")

    def close(self) -> None:
        """Nothing is open between requests."""


class Smtp(_Streams):
    """Mail on a connection that is kept, a command at a time."""

    @staticmethod
    def request(message: bytes) -> bytes:
        """The message as it goes behind DATA."""
        content = _LINE_END.sub(b"\r\n", message)
        stuffed = (b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:]
        return stuffed + (b".\r\n" if stuffed.endswith(b"\r\n") else b"\r\n.\r\n")

    hello = b"EHLO bench.example\r\n"

    @classmethod
    async def greeted(cls, address: str) -> Self:
        """A connection after EHLO."""
        client = await cls.to(address)
        await client._reply(b"2")
        await client.command(cls.hello, b"2")
        return client

    async def exchange(self, request: bytes) -> None:
        """One transaction."""
        await self.command(b"MAIL FROM:<sender@bench.example>\r\n", b"2")
        await self.command(b"RCPT TO:<recipient@bench.example>\r\n", b"2")
        await self.command(b"DATA\r\n", b"3")
        await self.command(request, b"2")

    async def command(self, command: bytes, wanted: bytes) -> None:
        """One command and its reply, which begins with ``wanted``."""
        self.writer.write(command)
        await self._reply(wanted)

    async def _reply(self, wanted: bytes) -> None:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            while (line := await self.reader.readline())[3:4] == b"-":
                pass
        if not line.startswith(wanted):
            raise CannotMeasure(f"SMTP: {line[:200]!r}")


def listens(address: str) -> bool:
    """Whether something accepts connections at an address of this machine, ``HOST:PORT`` or ``unix:PATH``."""
    path = address.removeprefix("unix:")
    family, target = (socket.AF_UNIX, path) if path != address else (socket.AF_INET, _host_and_port(address))
    with socket.socket(family) as probe:
        return probe.connect_ex(target) == 0


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host, int(port)
