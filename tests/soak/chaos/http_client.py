"""A small HTTP client: one request a connection, with a deadline."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

REPLY_SECONDS = 15.0
_LINE_BYTES = 1 << 22  # an event is one line with a whole view
_NO_FIELDS: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class HttpHead:
    """The status of an answer and its header fields, whose names are in lower case."""

    status: int
    fields: Sequence[tuple[str, str]]

    def field(self, name: str) -> str:
        """Return the first value of a field; empty where there is none."""
        return next((value for each, value in self.fields if each == name), "")


@asynccontextmanager
async def open_exchange(
    port: int, method: str, path: str, body: bytes = b"", fields: Mapping[str, str] = _NO_FIELDS
) -> AsyncIterator[tuple[HttpHead, asyncio.StreamReader]]:
    """Send a request, and return the head of the answer and what reads the rest.

    Raises ``OSError`` or ``EOFError`` where there is none.
    """
    async with asyncio.timeout(REPLY_SECONDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=_LINE_BYTES)
    try:
        lines = [f"{method} {path} HTTP/1.0", f"Content-Length: {len(body)}"]
        lines += [f"{name}: {value}" for name, value in fields.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        async with asyncio.timeout(REPLY_SECONDS):
            try:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
            except asyncio.IncompleteReadError:
                raise EOFError("the connection was closed") from None
        status, *others = head.removesuffix("\r\n\r\n").split("\r\n")
        named = [line.partition(":") for line in others]
        yield HttpHead(int(status.split()[1]), [(name.lower(), value.strip()) for name, _, value in named]), reader
    finally:
        writer.transport.abort()


async def ask(
    port: int, method: str, path: str, body: bytes = b"", fields: Mapping[str, str] = _NO_FIELDS
) -> tuple[HttpHead, bytes]:
    """Return the whole answer. Raises ``OSError`` or ``EOFError`` where there is none."""
    async with open_exchange(port, method, path, body, fields) as (head, reader), asyncio.timeout(REPLY_SECONDS):
        content = await reader.read(-1)
    if len(content) != int(head.field("content-length")):
        raise EOFError("the answer was cut")
    return head, content


async def request(port: int, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
    """Return the status and the JSON of the answer. Raises ``OSError`` or ``EOFError`` where there is none."""
    head, content = await ask(port, method, path, body, {"Content-Type": "message/rfc822"})
    return head.status, json.loads(content)
