"""A next hop that fails as it is told: a small SMTP server that writes down what it was given.

Rules: a message is written down before its 250 is sent. Where the server dies after DATA, the message is written
down without a 250: a real server may have queued it. Whether a client has read the 250 is known once it says
something else, or closes the connection by itself.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from enum import Enum, auto
from typing import Self

_FEATURES = b"250-hop.test\r\n250-PIPELINING\r\n250-8BITMIME\r\n250 SMTPUTF8\r\n"
_QUEUE_SECONDS = 0.1  # between a message and its 250, at most: faults fall into it
_DEFERRED = b"451 4.3.0 try again later\r\n"


class Mood(Enum):
    """How the server behaves."""

    WELL = auto()
    REFUSES = auto()
    HANGS = auto()
    DEFERS = auto()
    DIES_AFTER_DATA = auto()


class Reply(Enum):
    """What became of the 250 for a message."""

    NOT_SENT = auto()
    SENT = auto()
    READ = auto()


@dataclass(slots=True)
class Reception:
    """A message that was received to its end: the address of its sender, its content, and the 250."""

    sender: str
    content: bytes
    reply: Reply = Reply.NOT_SENT


class NextHop:
    """The server on ``port``; ``receptions`` are all messages so far."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.receptions: list[Reception] = []
        self._mood = Mood.WELL
        self._generator = random.Random()
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        await self._listen()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def behave(self, mood: Mood) -> None:
        """Behave so from now on. What hung is cut when the server behaves otherwise."""
        if Mood.REFUSES in {mood, self._mood}:
            await self._close()
        if self._mood is Mood.HANGS:
            self.cut()
        self._mood = mood
        if mood is not Mood.REFUSES and self._server is None:
            await self._listen()

    def cut(self) -> None:
        """Break all connections."""
        for connection in self._connections:
            connection.cancel()

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, reuse_address=True)

    async def _close(self) -> None:
        if self._server:
            self._server.close()
            self._server = None
        self.cut()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.create_task(self._talk(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await self._transactions(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):  # a cut: the client sees a broken connection
            pass
        finally:
            writer.transport.abort()

    async def _transactions(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sender, last = "", None
        await self._reply(writer, b"220 hop.test ESMTP\r\n")
        while True:
            line = await reader.readline()
            if last:
                last.reply, last = Reply.READ, None
            verb = line[:4].upper()
            if not line:
                return
            if verb == b"QUIT":
                return
            if verb == b"MAIL":
                sender = line.partition(b"<")[2].partition(b">")[0].decode()
            if verb == b"DATA":
                await self._reply(writer, b"354 go on\r\n")
                reception = await self._receive(sender, reader)
                if reception is None or self._mood is Mood.DIES_AFTER_DATA:
                    return
                if self._mood is Mood.DEFERS:
                    await self._reply(writer, _DEFERRED)
                    continue
                await asyncio.sleep(self._generator.uniform(0.0, _QUEUE_SECONDS))
                reception.reply, last = Reply.SENT, reception
                await self._reply(writer, b"250 2.0.0 queued\r\n")
            else:
                await self._reply(writer, _FEATURES if verb in {b"EHLO", b"HELO"} else b"250 2.0.0 ok\r\n")

    async def _receive(self, sender: str, reader: asyncio.StreamReader) -> Reception | None:
        """Receive a message; return None where it is cut. A message that is to be deferred is not written down."""
        lines = []
        while (line := await reader.readline()) != b".\r\n":
            if not line.endswith(b"\r\n"):
                return None
            lines.append(line.removeprefix(b"."))
        if self._mood is Mood.HANGS:
            await asyncio.Event().wait()
        reception = Reception(sender, b"".join(lines))
        if self._mood is not Mood.DEFERS:
            self.receptions.append(reception)
        return reception

    async def _reply(self, writer: asyncio.StreamWriter, reply: bytes) -> None:
        if self._mood is Mood.HANGS:
            await asyncio.Event().wait()
        writer.write(reply)
        await writer.drain()
