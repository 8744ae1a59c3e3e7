"""The channel between the supervisor and one of its workers: a socket pair, one JSON object a line.

Rules: the two are one program, run by one user, and nobody else holds an end. Still a line has a limit, and what a
worker sends is JSON and nothing more. Settings go only from the supervisor to the worker, pickled: they are what
the supervisor has validated, secrets included, and the files that they were read from may have changed since. They
are never in a command line or in the environment, which others may read.
"""

from __future__ import annotations

import asyncio
import base64
import json
import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import socket
    from collections.abc import Mapping

    from nbstream.config import Settings

ChannelMessage: TypeAlias = "Mapping[str, Any]"

_MAX_LINE_BYTES = 16 << 20  # far more than the settings that a file may hold, or the metrics of a worker
_WRITE_SECONDS = 5.0


class Channel:
    """One end of a channel."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over_socket(cls, end: socket.socket) -> Channel:
        """Return the channel on this end of a socket pair; ``close`` closes the end."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_MAX_LINE_BYTES))

    async def send(self, message: ChannelMessage) -> None:
        """Send a message; raises ``OSError`` where an end is closed or nobody reads (``TimeoutError``)."""
        if self._writer.is_closing():  # uvloop's error for a write now is a RuntimeError
            raise ConnectionResetError("the channel is closed")
        self.send_soon(message)
        async with asyncio.timeout(_WRITE_SECONDS):
            await self._writer.drain()

    def send_soon(self, message: ChannelMessage) -> None:
        """Send a message soon, whether both ends are still open or not; only for rare messages."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> ChannelMessage | None:
        """Return the next message; None where the other end is closed, or sends no JSON object."""
        try:
            line = await self._reader.readline()
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):  # a line that is too long is a ValueError too
            return None
        return message if isinstance(message, dict) else None

    async def close(self) -> None:
        """Close this end after everything was sent; the other end then receives None."""
        self._writer.close()
        with suppress(OSError):
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.wait_closed()


def pack_settings(settings: Settings) -> str:
    """Return the settings as text for a message."""
    return base64.b64encode(pickle.dumps(settings)).decode("ascii")


def unpack_settings(text: str) -> Settings:
    """Return the settings that the supervisor packed."""
    settings: Settings = pickle.loads(base64.b64decode(text))  # noqa: S301 - from our supervisor, over our own socket
    return settings
