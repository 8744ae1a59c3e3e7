"""A small HTTP client: one request a connection, with a deadline."""

from __future__ import annotations

import asyncio
import json
from typing import Any

REPLY_SECONDS = 15.0


async def request(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Return the status and the JSON of the answer. Raises ``OSError`` or ``EOFError`` where there is none."""
    async with asyncio.timeout(REPLY_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        lines = f"{method} {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\nContent-Type: message/rfc822\r\n\r\n"
        writer.write(lines.encode() + body)
        async with asyncio.timeout(REPLY_SECONDS):
            head, end, content = (await reader.read(-1)).partition(b"\r\n\r\n")
        if not end:
            raise EOFError("the connection was closed")
        (length,) = [line.split()[1] for line in head.lower().splitlines() if line.startswith(b"content-length:")]
        if len(content) != int(length):
            raise EOFError("the answer was cut")
        return int(head.split()[1]), json.loads(content)
    finally:
        writer.transport.abort()
