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
            head = (
                f"{method} {path} HTTP/1.0\r\nContent-Length: {len(body)}\r\nContent-Type: message/rfc822\r\n\r\n"
            )
            writer.write(head.encode() + body)
            answer_head, _, answer = (await reader.read(-1)).partition(b"\r\n\r\n")
        finally:
            writer.transport.abort()
    words = answer_head.split(None, 2)
    if len(words) < 2:
        raise EOFError("the connection was closed")
    try:
        return int(words[1]), json.loads(answer)
    except ValueError:
        raise EOFError("the answer was cut") from None
