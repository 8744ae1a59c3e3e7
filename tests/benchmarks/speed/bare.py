"""Servers that do what a way needs at least, and nothing with the message: the ways are measured beside them.

    python -m tests.benchmarks.speed.bare KIND ADDRESS [NEXT_PORT]

KIND is ``proxy`` (hands on all bytes, for SMTP and LMTP), ``milter``, ``spamd`` or ``script``; ADDRESS is
HOST:PORT or unix:PATH.
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from nbstream.listeners.milter.codec import MilterActions, MilterSteps

_READ_BYTES = 256 << 10
# What nbstream agrees on with the same client.
_STEPS = (
    (MilterSteps.NOHELO | MilterSteps.NODATA | MilterSteps.NOEOH | MilterSteps.NOUNKNOWN)
    | (MilterSteps.NR_CONN | MilterSteps.NR_MAIL | MilterSteps.NR_RCPT | MilterSteps.NR_HDR)
    | (MilterSteps.HDR_LEADSPC | MilterSteps.SKIP)
)
_NEGOTIATED = struct.pack("!IcIII", 13, b"O", 6, MilterActions.ADDHDRS, _STEPS)
_CONTINUE = struct.pack("!Ic", 1, b"c")


async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, next_port: int) -> None:
    """Hand on all bytes, in both directions."""
    next_reader, next_writer = await asyncio.open_connection("127.0.0.1", next_port)

    async def hand_on(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(_READ_BYTES):
                target.write(data)
                await target.drain()
        target.close()

    await asyncio.gather(hand_on(reader, next_writer), hand_on(next_reader, writer))


async def milter(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
    """Answer "continue" to all."""
    with suppress(EOFError, OSError):
        while True:
            (length,) = struct.unpack("!I", await reader.readexactly(4))
            command = (await reader.readexactly(length))[:1]
            if command == b"O":
                writer.write(_NEGOTIATED)
            elif command in {b"B", b"E"}:
                writer.write(_CONTINUE)
    writer.close()


async def spamd(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
    """Return the header of the message as it came."""
    with suppress(EOFError, OSError):
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.partition(b"Content-length: ")[2].partition(b"\r\n")[0])
        header = (await reader.readexactly(length)).partition(b"\n\n")[0] + b"\n\n"
        writer.write(b"SPAMD/1.1 0 EX_OK\r\nContent-length: %d\r\nSpam: False ; 0.0 / 5.0\r\n\r\n" % len(header))
        writer.write(header)
    writer.close()


async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, _: int) -> None:
    """Take the message and forget it."""
    with suppress(OSError):
        while await reader.read(_READ_BYTES):
            pass
        writer.write(b"+\n")
    writer.close()


KINDS: dict[str, Callable[[asyncio.StreamReader, asyncio.StreamWriter, int], Awaitable[None]]] = {
    "proxy": proxy,
    "milter": milter,
    "spamd": spamd,
    "script": script,
}


async def main() -> None:
    """Serve until the process is ended."""
    kind, address, *next_port = sys.argv[1:]

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await KINDS[kind](reader, writer, int(next_port[0]) if next_port else 0)

    if address.startswith("unix:"):
        server = await asyncio.start_unix_server(serve, address.removeprefix("unix:"), limit=_READ_BYTES)
    else:
        host, _, port = address.rpartition(":")
        server = await asyncio.start_server(serve, host, int(port), limit=_READ_BYTES)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
