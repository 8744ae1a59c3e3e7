"""A listener for targets: it runs as long as the process does, and a client sends it any bytes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from nbstream.addresses import TcpAddress
from nbstream.server.listener import Listener
from nbstream.server.sockets import open_listening_socket

_SECONDS = 20.0


class FuzzedListener:
    """``listener`` on loopback; ``wait_until_idle`` returns when no session of it is left."""

    def __init__(
        self, runner: asyncio.Runner, listener: Listener, wait_until_idle: Callable[[], Awaitable[object]]
    ) -> None:
        self._runner = runner
        self._wait_until_idle = wait_until_idle
        socket = open_listening_socket(TcpAddress("127.0.0.1", 0))
        self._host, self._port = socket.getsockname()
        runner.run(listener.start(socket))

    def answer(self, sent: bytes) -> bytes:
        """Send these bytes and the end of our side, and return all replies once the session has ended."""
        return self._runner.run(self._talk(sent))

    async def _talk(self, sent: bytes) -> bytes:
        reader, writer = await asyncio.open_connection(self._host, self._port)
        try:
            writer.write(sent)
            writer.write_eof()
            async with asyncio.timeout(_SECONDS):
                return await reader.read()
        except ConnectionError:
            return b""
        finally:
            writer.transport.abort()
            await self._wait_until_idle()
