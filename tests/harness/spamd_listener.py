"""A spamd listener with all of its real parts, and a client that sends bytes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.bayes.columns import CLASSES
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.listeners.spamd.listener import SpamdListener
from nbstream.policy.header import HeaderPolicy
from nbstream.policy.settings import HeadersSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.sockets import open_listening_socket
from tests.harness.listener_filters import OpenFilter, open_filter
from tests.harness.runtimes import LOOPBACK, make_runtime
from tests.harness.waiting import DEADLINE_SECONDS, until

SPAM = (
    b'From: "Prize Office" <winner@offers.example>\r\nSubject: You have won\r\n\r\nClaim your free prize now.\r\n'
)
HAM = b"From: Ann <ann@example.org>\r\nSubject: Lunch?\r\n\r\nShall we have lunch on Friday?\r\n"


def request(command: str, *fields: str, message: bytes = SPAM, version: str = "1.5") -> bytes:
    """Return a request with its Content-length."""
    lines = [f"{command} SPAMC/{version}", *fields, f"Content-length: {len(message)}"]
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + message


def tell(label: str, message: bytes = SPAM, *fields: str) -> bytes:
    """Return a request to learn ``message`` as ``label``, or to forget it."""
    tell_fields = ["Remove: local"] if label == "forget" else [f"Message-class: {label}", "Set: local"]
    return request("TELL", *tell_fields, *fields, message=message)


@dataclass
class RunningSpamdListener:
    """A running spamd listener."""

    listener: SpamdListener
    service: MessageService
    opened_filter: OpenFilter
    metrics: DaemonMetrics
    port: int
    path: Path | None

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        if self.path:
            return await asyncio.open_unix_connection(self.path)
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def ask(self, *pieces: bytes, end: bool = False) -> bytes:
        """Send each of ``pieces`` on its own, and return all that the listener sends until it closes.

        If ``end`` is set, this side is closed after the last piece.
        """
        reader, writer = await self.connect()
        try:
            return await self.finish(reader, writer, pieces, end=end)
        finally:
            writer.close()

    async def finish(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        pieces: Iterable[bytes],
        *,
        end: bool = False,
    ) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            if end:
                writer.write_eof()
            answer = await reader.read()
        writer.close()
        return answer

    async def teach(self, *messages: tuple[str, bytes]) -> None:
        for label, message in messages:
            assert b"DidSet: local" in await self.ask(tell(label, message))

    async def wait_until_idle(self) -> None:
        """Return when no connection is left, and check that no bytes are reserved then."""
        await until(lambda: not self.listener.connections)
        assert self.listener.service.bytes_in_flight.reserved == 0
        assert self.metric("nbstream_connections_open", listener="spamd") == 0

    @property
    def learned(self) -> dict[str, int]:
        """How many messages of each class are learned."""
        totals = self.opened_filter.followed.totals
        assert totals is not None
        return dict(zip(CLASSES, totals.messages, strict=True))

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.counts.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def open_spamd(
    client: Redis, path: Path | None = None, **options: Any
) -> AsyncIterator[RunningSpamdListener]:
    """Run a listener on TCP, or at ``path``; ``options`` are those of its parts."""
    metrics = DaemonMetrics.create(PYTHON)
    policy = ThresholdPolicy(spam=options.pop("spam", 0.95))
    params = FilterPolicy(policy, options.pop("min_learned", {"spam": 1, "ham": 1}))
    allow_from = options.pop("allow_from", LOOPBACK)
    headers = options.pop("headers", HeaderPolicy("test", HeadersSettings(clues=False)))
    bytes_in_flight = BytesInFlight(options.pop("max_bytes_in_flight", 256 << 20))
    async with AsyncExitStack() as stack:
        follow = options.pop("follow", True)
        opened_filter = await stack.enter_async_context(open_filter(client, metrics, params, follow=follow))
        runtime = make_runtime(opened_filter.spam_filter, allow_from=allow_from, header_policy=headers)
        limits = ListenerLimits(**options)
        service = MessageService("spamd", runtime, metrics.delivery, limits, bytes_in_flight)
        listener = SpamdListener(service)
        address = UnixAddress(path) if path else TcpAddress("127.0.0.1", 0)
        socket = open_listening_socket(address)
        port = 0 if path else socket.getsockname()[1]
        await listener.start(socket)
        stack.push_async_callback(listener.drain, 0)
        yield RunningSpamdListener(listener, service, opened_filter, metrics, port, path)
