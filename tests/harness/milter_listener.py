"""A milter listener with all of its real parts, and a mail server's side of the protocol."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.bayes.columns import CLASSES
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.listeners.milter.session import PROGRESS_SECONDS, MilterListener
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.runtime import Runtime
from nbstream.server.sockets import open_listening_socket
from tests.harness import milter_frames as wire
from tests.harness.listener_filters import OpenFilter, open_filter
from tests.harness.milter_frames import Reply
from tests.harness.runtimes import HAM_ADDRESS, SPAM_ADDRESS, make_runtime
from tests.harness.waiting import DEADLINE_SECONDS, until

SPAM = (
    b'From: "Prize Office" <winner@offers.example>\r\nSubject: You have won\r\n\r\nClaim your free prize now.\r\n'
)
HAM = b"From: Ann <ann@example.org>\r\nSubject: Lunch?\r\n\r\nShall we have lunch on Friday?\r\n"
OWN_RECEIVED = b"Received: from client.example by mx.example.org\r\n"
_CHANGES = frozenset({b"i", b"m", b"+", b"-", b"q", b"p"})
LOCAL = "127.0.0.1"


@dataclass
class MilterClient:
    """A mail server: one connection, on which the options are agreed on."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    steps: int = 0

    async def reply(self) -> Reply:
        """The next reply."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            (length,) = struct.unpack("!I", await self.reader.readexactly(4))
            content = await self.reader.readexactly(length)
        return Reply(content[:1], content[1:])

    async def answer(self) -> list[Reply]:
        """The changes to a message, and the reply that decides."""
        replies = [await self.reply()]
        while replies[-1].command in _CHANGES:
            replies.append(await self.reply())
        return replies

    def send(self, *frames: bytes) -> None:
        self.writer.write(b"".join(frames))

    async def ask(self, *frames: bytes) -> Reply:
        """Send frames, of which the last one needs a reply."""
        self.send(*frames)
        return await self.reply()

    async def negotiate(self, *offer: int) -> Reply:
        reply = await self.ask(wire.negotiation(*offer))
        assert reply.command == b"O"
        self.steps = struct.unpack("!III", reply.data[:12])[2]
        return reply

    async def begin(
        self, *recipients: str, client: str = LOCAL, user: str = "", sender: str = "<someone@elsewhere.example>"
    ) -> None:
        """Send what comes before the content; all replies were dispensed with."""
        macros = wire.macros(b"M", {"{auth_authen}": user} if user else {})
        self.send(wire.connect(client), macros, wire.mail(sender))
        for recipient in recipients or ("ann@example.org",):
            self.send(wire.macros(b"R", {"i": "4ABC"}), wire.rcpt(f"<{recipient}>"))

    async def finish(self, message: bytes) -> list[Reply]:
        """Send the content, and return the answer to its end."""
        for frame in wire.content(message):
            self.send(frame)
            if frame[4:5] == b"B":
                reply = await self.reply()
                if reply.command != b"c":
                    return [reply]
        self.send(wire.macros(b"E", {"i": "4ABC"}), wire.END)
        return await self.answer()

    async def deliver(self, message: bytes, *recipients: str, **origin: str) -> list[Reply]:
        """Send a whole message, and return the answer to its end."""
        await self.begin(*recipients, **origin)
        return await self.finish(message)

    def close(self) -> None:
        self.writer.close()


@dataclass
class RunningMilter:
    """A running milter listener."""

    listener: MilterListener
    runtime: Runtime
    opened_filter: OpenFilter
    metrics: DaemonMetrics
    port: int
    path: Path | None
    clients: list[MilterClient] = field(default_factory=list)

    async def connect(self) -> MilterClient:
        """Connect, and say nothing."""
        if self.path:
            streams = await asyncio.open_unix_connection(self.path)
        else:
            streams = await asyncio.open_connection("127.0.0.1", self.port)
        self.clients.append(MilterClient(*streams))
        return self.clients[-1]

    async def server(self, *offer: int) -> MilterClient:
        """A mail server that has agreed on the options."""
        client = await self.connect()
        await client.negotiate(*offer)
        return client

    async def teach(self) -> None:
        """Teach one spam and one ham, by mail."""
        client = await self.server()
        for address, message in ((SPAM_ADDRESS, SPAM), (HAM_ADDRESS, HAM)):
            assert [reply.command for reply in await client.deliver(message, address)] == [b"d"]
        client.close()

    async def wait_until_idle(self) -> None:
        """Return when no connection is left, and check that no bytes are reserved then."""
        await until(lambda: not self.listener.connections)
        assert self.listener.service.bytes_in_flight.reserved == 0
        assert self.metric("nbstream_connections_open", listener="milter") == 0

    @property
    def learned(self) -> dict[str, int]:
        """How many messages of each class are learned."""
        totals = self.opened_filter.followed.totals
        assert totals is not None
        return dict(zip(CLASSES, totals.messages, strict=True))

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.counts.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def open_milter(
    client: Redis, path: Path | None = None, *, runtime: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[RunningMilter]:
    """Run a listener on TCP, or at ``path``; ``runtime`` changes its runtime, ``options`` are of its parts."""
    metrics = DaemonMetrics.create(PYTHON)
    policy = FilterPolicy(options.pop("policy", ThresholdPolicy()), {"spam": 1, "ham": 1})
    bytes_in_flight = BytesInFlight(options.pop("max_bytes_in_flight", 256 << 20))
    async with AsyncExitStack() as stack:
        follow = options.pop("follow", True)
        opened_filter = await stack.enter_async_context(open_filter(client, metrics, policy, follow=follow))
        made = make_runtime(opened_filter.spam_filter, **(runtime or {}))
        progress_seconds = options.pop("progress_seconds", PROGRESS_SECONDS)
        service = MessageService("milter", made, metrics.delivery, ListenerLimits(**options), bytes_in_flight)
        listener = MilterListener(service, progress_seconds)
        socket = open_listening_socket(UnixAddress(path) if path else TcpAddress("127.0.0.1", 0))
        port = 0 if path else socket.getsockname()[1]
        await listener.start(socket)
        stack.push_async_callback(listener.drain, 0)
        running = RunningMilter(listener, made, opened_filter, metrics, port, path)
        try:
            yield running
        finally:
            for server in running.clients:
                server.close()


def edited(message: bytes, answer: Sequence[Reply]) -> bytes:
    """The message as a mail server delivers it: with its own Received field on top, and changed by the answer."""
    head, end, body = message.partition(b"\r\n\r\n")
    fields = [OWN_RECEIVED, *(field + b"\r\n" for field in _unfolded(head))]
    for reply in answer:
        if reply.command == b"m":
            same = [place for place, field in enumerate(fields) if _name(field) == reply.words[0].lower()]
            name, value = reply.words
            place = same[reply.index - 1]
            fields[place : place + 1] = [name + b":" + value.replace(b"\n", b"\r\n") + b"\r\n"] if value else []
        elif reply.command == b"i":
            name, value = reply.words
            fields.insert(reply.index, name + b":" + value.replace(b"\n", b"\r\n") + b"\r\n")
    return b"".join(fields) + end.removeprefix(b"\r\n") + body


def _unfolded(head: bytes) -> list[bytes]:
    return head.replace(b"\r\n\t", b"\0\t").replace(b"\r\n ", b"\0 ").split(b"\r\n")


def _name(field: bytes) -> bytes:
    return field.partition(b":")[0].rstrip(b" \t").lower()
