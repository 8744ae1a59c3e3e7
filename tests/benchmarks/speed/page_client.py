"""Browsers of the page as far as the server sees them: they have sessions, and keep a connection."""

from __future__ import annotations

import asyncio
import gzip
import re
import time
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self
from urllib.parse import urljoin

from nbstream import config
from nbstream.assembly.store import make_model, open_running_redis
from nbstream.listeners.http.access import Role
from nbstream.page.requests import ADMIN_AREA
from nbstream.page.responses import cookie_name
from nbstream.store.logins import PageSessionStore
from tests.benchmarks.speed.processes import CannotMeasure

_PATIENCE_SECONDS = 60.0
_PUSH_SECONDS = 1.0
_MAX_EVENT_BYTES = 1 << 24
_NEEDED = re.compile(rb'(?:src|href)="(/ui/static/[^"]+)"')
_IMPORTED = re.compile(rb'from "(\./[^"]+)"')


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: the seconds from the request to its last byte, its bytes over the wire, and its unpacked body."""

    seconds: float
    wire_bytes: int
    body: bytes


class PageClient:
    """Asks for one thing after the other; all that is not 200 raises ``CannotMeasure``."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, address: str, cookie: str
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._address = address
        self._cookie = cookie

    @classmethod
    async def to(cls, address: str, cookie: str) -> Self:
        """Connect; ``cookie`` is that of a session."""
        host, _, port = address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port)), address, cookie)

    async def get(self, path: str) -> Answer:
        """Get one path."""
        lines = [f"GET {path} HTTP/1.1", f"Host: {self._address}", f"Cookie: {self._cookie}"]
        lines += ["Accept: text/html", "Accept-Encoding: gzip", "Sec-Fetch-Site: same-origin"]
        begun = time.perf_counter()
        self._writer.write("\r\n".join([*lines, "", ""]).encode())
        async with asyncio.timeout(_PATIENCE_SECONDS):
            head = await self._reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)\r\ncontent-length: (\d+)", head)
            body = await self._reader.readexactly(int(length[1]) if length else 0)
        seconds = time.perf_counter() - begun
        if not head.startswith(b"HTTP/1.1 200 "):
            raise CannotMeasure(f"{path}: {head[:60]!r}")
        unpacked = gzip.decompress(body) if b"\r\nContent-Encoding: gzip" in head else body
        return Answer(seconds, len(head) + len(body), unpacked)

    async def get_with_files(self, path: str) -> tuple[float, int]:
        """Get a page and all static files that it needs, one after the other; return the seconds and the bytes."""
        answers = {path: await self.get(path)}
        waiting = list(_static_files(path, answers[path].body))
        while waiting:
            file = waiting.pop()
            if file not in answers:
                answers[file] = await self.get(file)
                waiting += _static_files(file, answers[file].body)
        return sum(answer.seconds for answer in answers.values()), sum(one.wire_bytes for one in answers.values())

    def close(self) -> None:
        """Close the connection."""
        self._writer.close()


async def open_sessions(address: str, config_file: Path, count: int = 1) -> list[str]:
    """Return the cookies of new sessions of a running daemon, as a login stores them."""
    name = cookie_name(ADMIN_AREA.session_cookie, address)
    settings = config.load_settings(config_file)
    async with open_running_redis(settings) as clients:
        store = PageSessionStore(clients.client, make_model(settings, clients.client).keys)
        return [f"{name}={await store.create_session(Role.READ, 'page bench')}" for _ in range(count)]


def _static_files(path: str, body: bytes) -> Iterable[str]:
    """Yield the static files that a page needs or a script imports."""
    for pattern in (_NEEDED, _IMPORTED):
        for found in pattern.findall(body):
            yield urljoin(path, found.decode())


@asynccontextmanager
async def open_browsers(address: str, cookies: Sequence[str]) -> AsyncIterator[None]:
    """Have the view now open in a browser for each session: it reads its events, and has had one at the beginning.

    Raises ``CannotMeasure`` where the events of one end before the block does.
    """
    browsers = [Browser() for _ in cookies]
    reading = [
        asyncio.create_task(browser.read_events(address, cookie))
        for browser, cookie in zip(browsers, cookies, strict=True)
    ]
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await asyncio.gather(*(browser.had_one.wait() for browser in browsers))
        await asyncio.sleep(_PUSH_SECONDS)  # or the push that all of them began with would be followed by a rest
        yield
        if not all(browser.is_open for browser in browsers):
            raise CannotMeasure("the events of a browser have ended")
    finally:
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


class Browser:
    """A browser that has the view now open."""

    def __init__(self) -> None:
        self.had_one = asyncio.Event()
        """An event has come, or none will come."""
        self.is_open = False

    async def read_events(self, address: str, cookie: str) -> None:
        """Read events until they end."""
        host, _, port = address.rpartition(":")
        reader, writer = await asyncio.open_connection(host, int(port), limit=_MAX_EVENT_BYTES)
        try:
            request = f"GET /ui/events?span=hour HTTP/1.1\r\nHost: {address}\r\nCookie: {cookie}\r\n\r\n"
            writer.write(request.encode())
            self.is_open = (await reader.readline()).startswith(b"HTTP/1.1 200 ")
            while self.is_open and (line := await reader.readline()):
                if line.startswith(b"event: now"):
                    self.had_one.set()
        finally:
            self.is_open = False
            self.had_one.set()
            writer.close()
