"""A client that has messages checked through HTTP: over some connections, as fast as they are answered."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from nbstream.errors import CheckFailed

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ANSWER_SECONDS = 30.0


async def check_through_http(host: str, port: int, messages: Sequence[bytes], connections: int) -> None:
    """Send each message once to ``/checkv2``; raises ``CheckFailed`` where one is not answered with 200."""
    waiting = iter(messages)
    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(_send_all(host, port, waiting))
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _send_all(host: str, port: int, waiting: Iterator[bytes]) -> None:
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
        try:
            for raw in waiting:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await _exchange(reader, writer, raw)
        finally:
            writer.close()
    except (OSError, EOFError, ValueError, asyncio.LimitOverrunError) as error:
        raise CheckFailed(f"no answer through HTTP: {type(error).__name__}: {error}") from error


async def _exchange(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes) -> None:
    writer.write(b"POST /checkv2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(raw) + raw)
    await writer.drain()
    head = await reader.readuntil(b"\r\n\r\n")
    status, _, _ = head.partition(b"\r\n")
    _, _, rest = head.lower().partition(b"\r\ncontent-length:")
    await reader.readexactly(int(rest.partition(b"\r\n")[0]))
    if not status.startswith(b"HTTP/1.1 200"):
        raise CheckFailed(f"HTTP: {status[:60].decode('ascii', 'replace')}")
