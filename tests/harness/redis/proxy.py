"""A proxy before Redis that breaks connections where a test wants it: before or after a request, or in a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import Enum, auto
from pathlib import Path
from typing import Self, TypeAlias


class Fate(Enum):
    """What becomes of a request."""

    PASS = auto()
    LOSE_REQUEST = auto()
    """The connection breaks before it reaches Redis."""
    LOSE_REPLY = auto()
    """Redis carries it out, and the connection breaks in place of the answer."""
    KEEP_REPLY = auto()
    """Redis carries it out, and the answer never comes."""


Decide: TypeAlias = "Callable[[bytes], Awaitable[Fate]]"
"""Decides about each piece of a request before it is passed on; it may wait."""


async def pass_all(request: bytes) -> Fate:
    return Fate.PASS


class Proxy:
    """Passes connections to ``socket`` on to the Redis at ``target``; a test may change all of it meanwhile.

    ``reply_bytes`` is how many bytes of answers, over all connections, are passed on until one breaks; None is no
    limit. ``broken`` counts the requests and answers that were lost.
    """

    def __init__(self, target: Path, socket: Path, decide: Decide = pass_all) -> None:
        self.target, self.socket, self.decide = target, socket, decide
        self.url = f"unix://{socket}"
        self.reply_bytes: int | None = None
        self.broken = 0
        self._open: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_unix_server(self._serve, self.socket)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()
        await asyncio.gather(*self._open, return_exceptions=True)

    def cut(self) -> None:
        """Break all connections."""
        for connection in self._open:
            connection.cancel()

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._connect(reader, writer))
        self._open.add(connection)
        connection.add_done_callback(self._open.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            redis_reader, redis_writer = await asyncio.open_unix_connection(self.target)
            try:
                await _Connection(self, reader, writer).run(redis_reader, redis_writer)
            finally:
                redis_writer.transport.abort()
        except OSError:  # one side has closed its connection, so the other side is closed too
            pass
        finally:
            writer.transport.abort()


class _Connection:
    """One client's connection."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._proxy, self._reader, self._writer = proxy, reader, writer
        self._reply = Fate.PASS

    async def run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass both ways until either ends."""
        directions = [asyncio.create_task(self._requests(writer)), asyncio.create_task(self._replies(reader))]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for direction in directions:
                direction.cancel()
            await asyncio.gather(*directions, return_exceptions=True)

    async def _requests(self, redis: asyncio.StreamWriter) -> None:
        while request := await self._reader.read(1 << 20):
            fate = await self._proxy.decide(request)
            if fate is Fate.LOSE_REQUEST:
                self._proxy.broken += 1
                return
            if self._reply is Fate.PASS:  # else this is a later piece of the request whose answer is lost
                self._reply = fate
            redis.write(request)

    async def _replies(self, redis: asyncio.StreamReader) -> None:
        while reply := await redis.read(1 << 16):
            if self._reply is not Fate.PASS:
                self._proxy.broken += 1
                if self._reply is Fate.LOSE_REPLY:
                    return
                await asyncio.Event().wait()
            if self._proxy.reply_bytes is not None:
                self._proxy.reply_bytes -= len(reply)
                if self._proxy.reply_bytes < 0:
                    self._writer.write(reply[: self._proxy.reply_bytes])
                    self._proxy.reply_bytes = None
                    self._proxy.broken += 1
                    return
            self._writer.write(reply)


class LosesOneReply(Proxy):
    """Breaks the connection instead of passing on the answer to the first script, and no other."""

    def __init__(self, target: Path, socket: Path) -> None:
        super().__init__(target, socket, self._lose_one)

    async def _lose_one(self, request: bytes) -> Fate:
        return Fate.PASS if self.broken or b"EVALSHA" not in request else Fate.LOSE_REPLY
