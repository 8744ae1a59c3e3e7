"""The SMTP listener with everything real behind it: Redis, mirror, filter, next hop."""

from __future__ import annotations

import asyncio
import smtplib
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.engine.choice import PYTHON
from nbstream.filter import Filter, FilterPolicy
from nbstream.listeners.bytes_in_flight import BytesInFlight
from nbstream.listeners.smtp.listener import SmtpListener
from nbstream.listeners.smtp.listener_state import SmtpLimits, SmtpOptions
from nbstream.listeners.sockets import TcpListenAddress, open_listening_socket
from nbstream.metrics.daemon import DaemonMetrics
from nbstream.policy.actions import VerdictActions
from nbstream.policy.header_policy import HeaderPolicy
from nbstream.policy.policy import ThresholdPolicy
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.relay.maildir_next_hop import MaildirNextHop
from nbstream.relay.next_hop import NextHop
from nbstream.relay.outlet import Outlet
from nbstream.relay.quarantine import Quarantine
from nbstream.store.connection import primary_of
from nbstream.store.model.model import Model
from nbstream.store.replica.mirror import Mirror
from tests.listeners.filters import open_filter
from tests.listeners.runtimes import HAM_ADDRESS, LOOPBACK, SPAM_ADDRESS, make_runtime
from tests.waiting import DEADLINE_SECONDS

SPAM, HAM = SPAM_ADDRESS, HAM_ADDRESS


@dataclass
class RunningSmtp:
    """A running SMTP listener; ``talk`` opens a connection that says and expects bytes."""

    host: str
    port: int
    listener: SmtpListener
    spam_filter: Filter
    model: Model
    mirror: Mirror
    metrics: DaemonMetrics
    maildir: Path
    stack: AsyncExitStack = field(repr=False)

    async def talk(self) -> Dialogue:
        reader, writer = await asyncio.open_connection(self.host, self.port)
        self.stack.callback(writer.close)
        return Dialogue(reader, writer)

    async def send(
        self,
        content: bytes,
        recipient: str = "to@example.org",
        sender: str = "from@example.org",
        parameters: Sequence[str] = (),
    ) -> str:
        """Send one message with a client of the standard library; the last reply as text.

        ``parameters`` are those of MAIL.
        """
        return await asyncio.to_thread(self._send, content, recipient, sender, parameters)

    def _send(self, content: bytes, recipient: str, sender: str, parameters: Sequence[str]) -> str:
        with smtplib.SMTP(self.host, self.port, timeout=DEADLINE_SECONDS) as client:
            client.ehlo("client.example.org")
            code, text = client.mail(sender, parameters)
            if code < 300:
                code, text = client.rcpt(recipient)
            if code < 300:
                code, text = client.data(content)
            return f"{code} {text.decode()}"

    def delivered(self) -> list[bytes]:
        """The files in the Maildir, oldest first."""
        files = sorted((self.maildir / "new").glob("*"), key=lambda path: path.stat().st_mtime_ns)
        return [path.read_bytes() for path in files]

    def metric(self, name: str, **labels: str) -> float:
        registries = self.metrics.registry.counts, self.metrics.registry.state
        return sum(registry.get_sample_value(name, labels) or 0.0 for registry in registries)


class Dialogue:
    """One connection: bytes out, replies in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def reply(self) -> str:
        """The next reply, all of its lines."""
        lines = []
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                line = (await self.reader.readline()).decode()
                if not line:
                    raise EOFError("the listener closed the connection")
                lines.append(line.rstrip("\r\n"))
                if line[3:4] != "-":
                    return "\n".join(lines)

    async def say(self, line: str | bytes) -> str:
        """Say a line and return the reply."""
        self.writer.write((line.encode() if isinstance(line, str) else line) + b"\r\n")
        return await self.reply()

    async def hello(self) -> str:
        await self.reply()
        return await self.say("EHLO client.example.org")

    async def begin(self, recipient: str = "to@example.org") -> None:
        """Everything up to the 354 of DATA."""
        await self.hello()
        for line in ("MAIL FROM:<from@example.org>", f"RCPT TO:<{recipient}>", "DATA"):
            assert (await self.say(line))[0] in "23"

    async def ended(self) -> bytes:
        """What came until the listener closed the connection."""
        async with asyncio.timeout(DEADLINE_SECONDS):
            return await self.reader.read()


@asynccontextmanager
async def open_smtp_listener(
    client: Redis, maildir: Path, next_hop: NextHop | None = None, **options: Any
) -> AsyncIterator[RunningSmtp]:
    """Start an SMTP listener with everything real behind it; ``follow=False`` leaves the mirror empty.

    The other options are those of its parts.
    """
    policy = ThresholdPolicy(reject=options.pop("reject", None))
    rules = RecipientRules.build(policy, options.pop("actions", VerdictActions()), options.pop("rules", ()))
    allow_from = options.pop("allow_from", LOOPBACK)
    trusted_proxies = options.pop("trusted_proxies", LOOPBACK)
    follow = options.pop("follow", True)
    pass_on_failure = options.pop("pass_on_failure", True)
    headers = options.pop("headers", HeaderPolicy("test"))
    max_bytes_in_flight = options.pop("max_bytes_in_flight", 256 << 20)
    min_learned = options.pop("min_learned", {"spam": 1, "ham": 1})
    metrics = DaemonMetrics.create(PYTHON)
    async with AsyncExitStack() as stack:
        filter_policy = FilterPolicy(policy, min_learned, tuple(rule.treatment.policy for rule in rules.rules))
        opened = await stack.enter_async_context(open_filter(client, metrics, filter_policy, follow=follow))
        spam_filter, model, mirror = opened.spam_filter, opened.model, opened.mirror
        metrics.watch_model(mirror, primary_of(client), lambda: filter_policy)
        next_hop = next_hop or MaildirNextHop(maildir)
        runtime = make_runtime(
            spam_filter,
            rules=rules,
            allow_from=allow_from,
            passes_on_failure=pass_on_failure,
            header_policy=headers,
        )
        listener = SmtpListener(
            SmtpLimits(hostname="listener.example.org", **options),
            SmtpOptions(trusted_proxies),
            BytesInFlight(max_bytes_in_flight),
            Outlet(next_hop, Quarantine(maildir.with_name("Quarantine"))),
            runtime,
            metrics,
        )
        socket = open_listening_socket(TcpListenAddress("127.0.0.1", 0))
        host, port = socket.getsockname()
        await listener.start(socket)
        stack.push_async_callback(next_hop.close)
        stack.push_async_callback(listener.drain, 0)
        yield RunningSmtp(host, port, listener, spam_filter, model, mirror, metrics, maildir, stack)
