"""An SMTP server that takes every message and forgets it, cheaply.

python -m tests.benchmarks.speed.sink PORT
"""

from __future__ import annotations

import asyncio
import sys

import uvloop

_EHLO = b"250-sink\r\n250-PIPELINING\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 SIZE 104857600\r\n"
_END = b"\r\n.\r\n"
_BUFFER_BYTES = 64 * 1024


class Sink(asyncio.BufferedProtocol):
    """One connection.

    Its buffer is used again and again, and is small: with a new byte string of 256 kB for each read, one large
    message kept this process busy for 30 ms in one step, and all other mail waited.
    """

    def __init__(self) -> None:
        self._buffer = bytearray(_BUFFER_BYTES)
        self._commands = b""
        self._in_message = False
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]  # TCP's can write
        self._transport.write(b"220 sink\r\n")

    def get_buffer(self, sizehint: int) -> bytearray:
        """Return where the next bytes go."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Read the bytes that have come."""
        if self._in_message:
            self._tail = (self._tail + self._buffer[max(0, nbytes - len(_END)) : nbytes])[-len(_END) :]
            if self._tail == _END:  # the client waits for the answer, so nothing follows
                self._in_message = False
                self._transport.write(b"250 taken\r\n")
            return
        *lines, self._commands = (self._commands + self._buffer[:nbytes]).split(b"\r\n")
        for line in lines:
            verb = line[:4].upper()
            if verb == b"DATA":
                self._in_message, self._tail = True, b"\r\n"
                self._transport.write(b"354 go on\r\n")
            elif verb == b"QUIT":
                self._transport.write(b"221 bye\r\n")
                self._transport.close()
            else:
                self._transport.write(_EHLO if verb == b"EHLO" else b"250 yes\r\n")


async def main() -> None:
    """Serve until the process is ended."""
    server = await asyncio.get_running_loop().create_server(Sink, "127.0.0.1", int(sys.argv[1]))
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
