"""A network between the servers of a set and their clients, which a test cuts in two and joins again.

Each server listens at a port of its own and is reached through another one, which belongs to the network. Who asks
is known by his address: each server has its own (``bind-source-addr``), and clients have 127.0.0.1. Between two
sides that are cut off from each other no byte passes and no connection is refused or broken, as behind a switch
without power. When they are joined, what was sent meanwhile arrives, as TCP would send it again.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, Self, TypeVar

from tests.harness.daemon import free_port

"""The address of all clients."""

_DEADLINE_SECONDS = 10.0

_T = TypeVar("_T")


class Network:
    """Forwarded ports, served by a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._isolated: frozenset[str] = frozenset()
        self._joined = asyncio.Condition()
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()
        self._is_closing = False

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_DEADLINE_SECONDS)
        self._loop.close()

    def forward(self, host: str, port: int) -> int:
        """Return a new port of ``host`` that leads to the server at ``port`` there."""
        public_port = free_port(host)
        self._run(self._open(host, port, public_port))
        return public_port

    def isolate(self, hosts: Iterable[str]) -> None:
        """Cut these addresses off from all others; among themselves they stay connected."""
        self._run(self._set_isolated(frozenset(hosts)))

    def join(self) -> None:
        """Connect all with all again."""
        self._run(self._set_isolated(frozenset()))

    def _run(self, work: Coroutine[Any, Any, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE_SECONDS)

    async def _set_isolated(self, hosts: frozenset[str]) -> None:
        async with self._joined:
            self._isolated = hosts
            self._joined.notify_all()

    def _passes(self, one: str, other: str) -> bool:
        return (one in self._isolated) == (other in self._isolated)

    async def _wait_until_passing(self, one: str, other: str) -> None:
        async with self._joined:
            await self._joined.wait_for(lambda: self._passes(one, other))

    async def _open(self, host: str, port: int, public_port: int) -> None:
        def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._is_closing:
                writer.transport.abort()
                return
            connection = asyncio.create_task(self._connect(host, port, reader, writer))
            self._connections.add(connection)
            connection.add_done_callback(self._connections.discard)
            connection.add_done_callback(lambda _: writer.transport.abort())  # also of a task that has not begun

        self._servers.append(await asyncio.start_server(serve, host, public_port))

    async def _connect(
        self, host: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = writer.get_extra_info("peername")[0]
        try:
            await self._wait_until_passing(peer, host)
            server_reader, server_writer = await asyncio.open_connection(host, port)
            try:
                async with asyncio.TaskGroup() as directions:
                    directions.create_task(self._pump(reader, server_writer, peer, host))
                    directions.create_task(self._pump(server_reader, writer, peer, host))
            finally:
                server_writer.transport.abort()
        except* (OSError, _ConnectionEnd):  # one side has closed its connection, so the other side is closed too
            pass

    async def _pump(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, peer: str, host: str
    ) -> None:
        while data := await reader.read(1 << 16):
            if not self._passes(peer, host):
                await self._wait_until_passing(peer, host)
            writer.write(data)
            await writer.drain()
        await self._wait_until_passing(peer, host)  # the end of a connection is not seen either
        raise _ConnectionEnd

    async def _close(self) -> None:
        self._is_closing = True
        # asyncio leaves a connection open that it is accepting while its server is closed (CPython 3.11).
        while accepting := asyncio.all_tasks() - self._connections - {asyncio.current_task()}:
            await asyncio.gather(*accepting, return_exceptions=True)
        for server in self._servers:
            server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


class _ConnectionEnd(Exception):
    """One side has closed the connection."""
