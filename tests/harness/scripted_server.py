"""An SMTP or LMTP server that plays transcripts over a real socket: each connection plays the next one.

A transcript has one step a line. ``C: x``: the client says exactly x. ``S: x``: the server says x.
``S: drop``: the server closes. ``S: nothing``: it neither speaks nor reads until ``go_on`` is set.
``C: some``: the client says something. ``C: gone``: the client closes, and ``last_words`` has what it said
before. ``S: tls``: the server begins TLS. Greeting and EHLO (LHLO of an LMTP server) come before the first line by
themselves, unless the server is made ``without_opening``.
"""

from __future__ import annotations

import asyncio
import ssl
import textwrap
from collections.abc import Sequence
from pathlib import Path

DEADLINE_SECONDS = 20

GREETING = b"220 server.test ESMTP\r\n"
FEATURES = b"250-server.test\r\n250-PIPELINING\r\n250-size 1000\r\n250 DSN\r\n"


class ScriptedServer:
    """The server; ``played`` waits until every transcript has been played to its end, and says what differed."""

    def __init__(
        self,
        transcripts: Sequence[str],
        *,
        lmtp: bool = False,
        without_opening: bool = False,
        tls: ssl.SSLContext | None = None,
        socket_path: Path | None = None,
    ) -> None:
        self._hello = b"" if without_opening else b"LHLO" if lmtp else b"EHLO"
        self._tls, self._socket_path = tls, socket_path
        self._transcripts = [textwrap.dedent(transcript).strip().split("\n") for transcript in transcripts]
        self._ended = [asyncio.get_running_loop().create_future() for _ in transcripts]
        self._connections: list[asyncio.StreamWriter] = []
        self._unexpected_connections = 0
        self.silent = asyncio.Event()  # the server has reached ``S: nothing`` or ``C: gone``
        self.go_on = asyncio.Event()
        self.last_words = b""
        self.host, self.port = "127.0.0.1", 0

    async def start(self) -> None:
        if self._socket_path:
            self._server = await asyncio.start_unix_server(self._serve, self._socket_path)
            return
        self._server = await asyncio.start_server(self._serve, self.host, self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        self._server.close()
        for writer in self._connections:
            writer.transport.abort()
        async with asyncio.timeout(DEADLINE_SECONDS):
            await self._server.wait_closed()

    async def played(self) -> None:
        async with asyncio.timeout(DEADLINE_SECONDS):
            await asyncio.gather(*self._ended)
        assert self._unexpected_connections == 0, "a connection more than there are transcripts"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self._connections)
        self._connections.append(writer)
        if number >= len(self._transcripts):
            self._unexpected_connections += 1
            writer.close()
            return
        try:
            await self._play(self._transcripts[number], reader, writer)
        except Exception as error:  # noqa: BLE001  # the test gets it, which waits in played()
            self._ended[number].set_exception(error)
        else:
            self._ended[number].set_result(None)
        finally:
            writer.close()

    async def _play(self, steps: list[str], reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._hello:
            own_name = b"localhost" if self._socket_path else b"[127.0.0.1]"
            writer.write(GREETING)
            assert await reader.readline() == self._hello + b" " + own_name + b"\r\n"
            writer.write(FEATURES)
        for step in steps:
            side, _, line = step.partition(": ")
            if step == "S: drop":
                return
            if step == "C: gone":
                self.silent.set()
                self.last_words = await _read_to_the_end(reader)
            elif step == "S: tls":
                assert self._tls is not None
                await writer.start_tls(self._tls)
            elif step == "S: nothing":
                self.silent.set()
                await self.go_on.wait()
            elif step == "C: some":
                await reader.readexactly(1)
            elif side == "S":
                writer.write(line.encode() + b"\r\n")
            else:
                assert await reader.readline() == line.encode("utf-8", "surrogateescape") + b"\r\n"


async def _read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    received = bytearray()
    try:
        while more := await reader.read(65536):
            received += more
    except ConnectionResetError:
        pass
    return bytes(received)
