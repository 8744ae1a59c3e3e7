"""Requests of any bytes to an HTTP listener that runs as long as the process does."""

from __future__ import annotations

import asyncio
import re
import tempfile
from pathlib import Path

from nbstream.addresses import UnixAddress
from nbstream.server.http.listener import HttpListener
from nbstream.server.sockets import open_listening_socket

_METHODS = frozenset({b"GET", b"HEAD", b"POST", b"PUT", b"OPTIONS"})
_FIELD = re.compile(rb"[A-Za-z-]+:")
_FRAMING = re.compile(rb"(?i)(?:content-length|transfer-encoding|connection|expect|upgrade)[ \t]*:")


class HttpExchange:
    """Sends requests to ``listener``, which it starts on a unix socket."""

    def __init__(self, runner: asyncio.Runner, listener: HttpListener) -> None:
        self._runner = runner
        self._folder = tempfile.TemporaryDirectory(prefix="nbstream-fuzz-")
        self._socket = Path(self._folder.name) / "h.sock"
        runner.run(listener.start(open_listening_socket(UnixAddress(self._socket))))

    def answer(self, request: bytes) -> bytes:
        """Send a request, and return all that comes back until the listener closes the connection."""
        return self._runner.run(self._ask(request))

    async def _ask(self, request: bytes) -> bytes:
        reader, writer = await asyncio.open_unix_connection(self._socket)
        try:
            writer.write(request)
            async with asyncio.timeout(20):
                return await reader.read()
        except ConnectionError:  # it closes a connection with the rest of what it refused unread
            return b""
        finally:
            writer.transport.abort()
            for _ in range(3):  # the listener sees the end
                await asyncio.sleep(0)


def framed(data: bytes) -> bytes:
    """Return a request with a length that is right: aiohttp reads what frames it, and that is tested there."""
    head, _, body = data.partition(b"\n\n")
    request, *fields = re.sub(rb"[\x00\r]", b"", head).split(b"\n")
    words = request.split(b" ")
    method, path = (*words, b"/v1/check")[:2]
    lines = [
        b"%s %s HTTP/1.1" % (method if method in _METHODS else b"POST", path or b"/"),
        *(field for field in fields if _FIELD.match(field) and not _FRAMING.match(field)),
        *(b"Content-Length: %d" % len(body), b"Connection: close"),
    ]
    return b"\r\n".join([*lines, b"", body])
