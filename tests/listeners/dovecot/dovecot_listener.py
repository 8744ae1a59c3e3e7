"""A Dovecot listener with all of its real parts, and a client that sends bytes as Dovecot does."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.addresses import UnixAddress
from nbstream.bayes.columns import CLASSES
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.engine.choice import PYTHON
from nbstream.filter import FilterPolicy
from nbstream.listeners.dovecot.learner import SpoolMetrics
from nbstream.listeners.dovecot.listener import DovecotListener
from nbstream.listeners.dovecot.spool import Spool, SpoolBacklog, measure_backlog
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.background import BackgroundTasks
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.sockets import open_listening_socket
from nbstream.store.state_file import StateFile
from tests.harness.listener_filters import OpenFilter, open_filter
from tests.harness.runtimes import HAM_ADDRESS, SPAM_ADDRESS, make_runtime
from tests.harness.waiting import DEADLINE_SECONDS, until

TAKEN, REFUSED = b"+\n", b"-\n"
PRIZE = b"Subject: You have won\r\n\r\nClaim your free prize now.\r\n"


def report(label: str, message: bytes = PRIZE, user: str = "ann", option: str = "-") -> bytes:
    """What Dovecot sends for a message."""
    address = {"spam": SPAM_ADDRESS, "ham": HAM_ADDRESS}.get(label, label)
    lines = ["VERSION\tscript\t4\t0", f"env_USER={user}", option, "127.0.0.1:10025", address, "", ""]
    return "\n".join(lines).encode() + message


@dataclass
class RunningDovecotListener:
    """A running listener; its own user is a trusted one."""

    listener: DovecotListener
    opened_filter: OpenFilter
    metrics: DaemonMetrics
    path: Path
    folder: Path
    bytes_in_flight: BytesInFlight
    is_drained: bool = False

    async def drain(self) -> None:
        """Drain the listener, once."""
        if not self.is_drained:
            self.is_drained = True
            await self.listener.drain(DEADLINE_SECONDS)

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_unix_connection(self.path)

    async def send(self, *pieces: bytes) -> bytes:
        """Send each piece on its own, close this side, and return the answer."""
        reader, writer = await self.connect()
        try:
            return await self.finish(reader, writer, pieces)
        finally:
            writer.close()

    async def finish(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pieces: Iterable[bytes]
    ) -> bytes:
        async with asyncio.timeout(DEADLINE_SECONDS):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
            writer.write_eof()
            return await reader.read()

    async def until_learned(self) -> None:
        await until(lambda: measure_backlog(self.folder).waiting == 0)

    @property
    def backlog(self) -> SpoolBacklog:
        return measure_backlog(self.folder)

    @property
    def learned(self) -> dict[str, int]:
        """How many messages of each class are learned."""
        totals = self.opened_filter.followed.totals
        assert totals is not None
        return dict(zip(CLASSES, totals.messages, strict=True))

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.registry.counts.get_sample_value(name, labels) or 0.0


@asynccontextmanager
async def open_dovecot(client: Redis, folder: Path, **options: Any) -> AsyncIterator[RunningDovecotListener]:
    """Run a listener whose state file is in ``folder``; ``options`` are those of its parts."""
    metrics = DaemonMetrics.create(PYTHON)
    policy = FilterPolicy(ThresholdPolicy(), {"spam": 1, "ham": 1})
    trusted = options.pop("trusted_users", frozenset({os.getuid()}))
    max_bytes = options.pop("spool_max_bytes", 64 << 20)
    bytes_in_flight = BytesInFlight(options.pop("max_bytes_in_flight", 256 << 20))
    async with AsyncExitStack() as stack:
        opened_filter = await stack.enter_async_context(open_filter(client, metrics, policy, follow=True))
        runtime = make_runtime(opened_filter.spam_filter)
        limits = ListenerLimits(**options)
        service = MessageService("dovecot", runtime, metrics.delivery, limits, bytes_in_flight)
        state = StateFile(folder)
        stack.callback(state.close)
        spool = Spool(state, max_bytes)
        path = folder / "nbstream-report"
        background = BackgroundTasks(metrics.process.background_failed)
        stack.push_async_callback(background.stop)
        listener = DovecotListener(service, trusted, spool, SpoolMetrics(metrics.registry), background)
        with suppress(FileNotFoundError):
            path.unlink()
        await listener.start(open_listening_socket(UnixAddress(path)))
        running = RunningDovecotListener(listener, opened_filter, metrics, path, folder, bytes_in_flight)
        stack.push_async_callback(running.drain)
        yield running
