"""The wire between a parent and one of its workers: a socket pair, one JSON object a line.

Rules: the two are one program, run by one user, and nobody else holds an end. Still a line has a limit, and what a
worker says is JSON and nothing more. Settings go from the parent to the worker alone, pickled: they are what
the parent has validated, secrets included, and the files that they were read from may have changed since. They are
never in a command line or in the environment, which others may read.
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
    """One end."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over_socket(cls, end: socket.socket) -> Channel:
        """The channel on this end of a socket pair, which it closes."""
        end.setblocking(False)
        return cls(*await asyncio.open_unix_connection(sock=end, limit=_MAX_LINE_BYTES))

    async def send(self, message: ChannelMessage) -> None:
        """Send it; OSError where the other end is gone, or reads nothing for too long (TimeoutError)."""
        self.send_soon(message)
        async with asyncio.timeout(_WRITE_SECONDS):
            await self._writer.drain()

    def send_soon(self, message: ChannelMessage) -> None:
        """Have it sent, whether the other end is still there or not; for what is rare."""
        self._writer.write(json.dumps(message).encode() + b"\n")

    async def receive(self) -> ChannelMessage | None:
        """The next message; None where the other end is gone, or does not speak as it should."""
        try:
            line = await self._reader.readline()
            message = json.loads(line) if line.endswith(b"\n") else None
        except (OSError, ValueError):  # a line that is too long is a ValueError too
            return None
        return message if isinstance(message, dict) else None

    async def close(self) -> None:
        """Close this end, after what was sent: the other end notices."""
        self._writer.close()
        with suppress(OSError):
            async with asyncio.timeout(_WRITE_SECONDS):
                await self._writer.wait_closed()


def pack_settings(settings: Settings) -> str:
    """The settings as text for a message."""
    return base64.b64encode(pickle.dumps(settings)).decode("ascii")


def unpack_settings(text: str) -> Settings:
    """The settings that the parent packed."""
    settings: Settings = pickle.loads(base64.b64decode(text))  # noqa: S301 - of our parent, over our own socket
    return settings
