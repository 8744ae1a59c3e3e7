"""An HTTP listener with all of its real parts: Redis, follower, filter, memory."""

from __future__ import annotations

import asyncio
import io
import json
import socket
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import aiohttp
from redis.asyncio import Redis

from nbstream.addresses import ListenAddress, TcpAddress
from nbstream.daemon.assembly.store import RedisClients
from nbstream.daemon.config import Settings
from nbstream.daemon.listeners import HTTP, make_listener, make_runtime
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.daemon.server_parts import ServerParts
from nbstream.engine.choice import PYTHON
from nbstream.filter import Filter
from nbstream.server.http.listener import HttpListener
from nbstream.server.runtime import Runtime
from nbstream.server.sockets import bound_address, open_listening_socket
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.recent.checked_messages import RecentMessages
from tests.harness.waiting import DEADLINE_SECONDS, ended

PRIZE = (
    b"From: Prize Office <winner@offers.example>\nSubject: You have won\nMessage-ID: <p@x>\n\nClaim your prize\n"
)
LUNCH = b"From: Ann <ann@example.org>\nSubject: Lunch on Friday?\nMessage-ID: <l@x>\n\nShall we have lunch?\n"
_LARGE_BYTES = 1 << 20


@dataclass(frozen=True)
class Answer:
    """An answer of the listener."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class RunningHttpListener:
    """A running HTTP listener; ``ask`` makes one request on a connection of its own."""

    listener: HttpListener
    address: str
    metrics: DaemonMetrics
    followed: FollowedCounts
    memory: RecentMessages
    spam_filter: Filter
    runtime: Runtime

    @property
    def url(self) -> str:
        return f"http://{'nbstream' if self.path else self.address}"

    @property
    def path(self) -> str | None:
        return self.address.removeprefix("unix:") if self.address.startswith("unix:") else None

    async def ask(self, path: str, body: bytes | None = None, method: str | None = None, **headers: str) -> Answer:
        """Send a GET, or a POST where there is a body; header names have _ for -."""
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        connector = aiohttp.UnixConnector(self.path) if self.path else None
        timeout = aiohttp.ClientTimeout(DEADLINE_SECONDS)
        data = (
            io.BytesIO(body) if isinstance(body, bytes) and len(body) > _LARGE_BYTES else body
        )  # aiohttp warns of large bytes
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
            session.request(
                method or ("GET" if body is None else "POST"), self.url + path, data=data, headers=fields
            ) as response,
        ):
            return Answer(response.status, response.headers, await response.read())

    @asynccontextmanager
    async def open(self) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """Open a connection to write bytes to; it is aborted at the end of the block."""
        if self.path:
            reader, writer = await asyncio.open_unix_connection(self.path)
        else:
            host, port = self.address.rsplit(":", 1)
            reader, writer = await asyncio.open_connection(host, int(port))
        try:
            yield reader, writer
        finally:
            writer.transport.abort()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def raw(self, request: bytes) -> bytes:
        """Send these bytes, and return all that the listener sends until it closes."""
        async with self.open() as (reader, writer):
            writer.write(request)
            return await rest(reader)

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.counts.get_sample_value(name, labels) or 0.0


async def rest(reader: asyncio.StreamReader) -> bytes:
    """Return all that the listener sends until it closes."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        return await reader.read()


@asynccontextmanager
async def open_http(
    client: Redis,
    folder: Path,
    *,
    address: ListenAddress | None = None,
    follow: bool = True,
    change: Callable[[dict[str, Any]], None] = lambda _: None,
    patience_seconds: float = 60,
) -> AsyncIterator[RunningHttpListener]:
    """Run a listener with a model that needs one message of each class; ``change`` edits the settings' values.

    ``follow=False`` leaves the follower empty.
    """
    values: dict[str, Any] = {"state_dir": str(folder), "model": {"min_learned": 1}}
    values["listeners"] = {"http": {"listen": "127.0.0.1:0"}}
    values["relay"] = {"next_hop": f"maildir:{folder / 'Maildir'}"}
    change(values)
    settings = Settings.model_validate(values)
    assert settings.listeners.http
    async with AsyncExitStack() as stack:
        metrics = DaemonMetrics.create(PYTHON)
        parts = ServerParts(settings, RedisClients(client, client), metrics, PYTHON)
        tasks = [asyncio.create_task(parts.recent_messages.run())]
        if follow:
            tasks.append(asyncio.create_task(parts.follower.run()))
            await parts.counts.loaded.wait()
        for task in tasks:
            stack.push_async_callback(ended, task)
        runtime = make_runtime(settings, parts.names, parts.spam_filter, own_models=parts.own_models)
        entry = replace(HTTP, idle_timeout_seconds=patience_seconds, message_timeout_seconds=patience_seconds)
        listener = make_listener(entry, settings, parts, runtime, lambda: False)
        assert isinstance(listener, HttpListener)
        address = address or TcpAddress("127.0.0.1", 0)
        listening = open_listening_socket(address)
        await listener.start(listening)
        stack.push_async_callback(listener.drain, 0)
        yield RunningHttpListener(
            listener,
            str(bound_address(address, listening)),
            metrics,
            parts.counts,
            parts.recent_messages,
            runtime.spam_filter,
            runtime,
        )


def free_socket() -> tuple[socket.socket, str]:
    """Return a listening socket on loopback, and its address."""
    address = TcpAddress("127.0.0.1", 0)
    listening = open_listening_socket(address)
    return listening, str(bound_address(address, listening))
