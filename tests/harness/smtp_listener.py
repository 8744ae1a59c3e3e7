"""The SMTP listener with everything real behind it: Redis, follower, filter, next hop."""

from __future__ import annotations

import asyncio
import secrets
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from nbstream.addresses import TcpAddress, UnixAddress
from nbstream.daemon.config import Settings
from nbstream.daemon.listeners import make_tls_contexts
from nbstream.daemon.metrics import DaemonMetrics
from nbstream.delivery.maildir import MaildirNextHop
from nbstream.delivery.next_hop import NextHop
from nbstream.delivery.quarantine import Quarantine
from nbstream.engine.choice import PYTHON
from nbstream.filter import Filter, FilterPolicy
from nbstream.filter.metrics import ModelGauges
from nbstream.listeners.smtp.session import SmtpListener
from nbstream.listeners.smtp.settings import LmtpListenerSettings, SmtpListenerSettings, TlsMode
from nbstream.policy.header import HeaderPolicy
from nbstream.policy.recipient_rules import RecipientRules
from nbstream.policy.settings import ActionsSettings
from nbstream.policy.thresholds import ThresholdPolicy
from nbstream.server.limits import BytesInFlight, ListenerLimits
from nbstream.server.message_service import MessageService
from nbstream.server.sockets import open_listening_socket
from nbstream.store.connection import primary_of
from nbstream.store.follower.counts import FollowedCounts
from nbstream.store.model.model import Model
from tests.harness.listener_filters import open_filter
from tests.harness.redis.access import Certificates
from tests.harness.runtimes import HAM_ADDRESS, LOOPBACK, SPAM_ADDRESS, make_runtime
from tests.harness.waiting import DEADLINE_SECONDS

SPAM, HAM = SPAM_ADDRESS, HAM_ADDRESS


class Way(StrEnum):
    """How clients reach the listener: by which protocol, on which kind of socket, and whether within TLS."""

    SMTP = "smtp"
    SMTP_UNIX = "smtp-unix"
    SMTP_STARTTLS = "smtp-starttls"
    SMTP_TLS = "smtp-tls"
    LMTP = "lmtp"
    LMTP_UNIX = "lmtp-unix"

    @property
    def listener_name(self) -> str:
        return self.value.partition("-")[0]

    @property
    def tls(self) -> TlsMode:
        return {Way.SMTP_STARTTLS: TlsMode.MAY, Way.SMTP_TLS: TlsMode.IMPLICIT}.get(self, TlsMode.OFF)

    @property
    def is_unix(self) -> bool:
        return self.value.endswith("unix")

    @property
    def hello(self) -> str:
        return "LHLO client.example.org" if self.listener_name == "lmtp" else "EHLO client.example.org"


@dataclass
class RunningSmtp:
    """A running SMTP or LMTP listener; ``talk`` opens a connection that says and expects bytes."""

    host: str
    port: int
    listener: SmtpListener
    spam_filter: Filter
    model: Model
    followed: FollowedCounts
    metrics: DaemonMetrics
    maildir: Path
    stack: AsyncExitStack = field(repr=False)
    way: Way = Way.SMTP
    socket_path: Path | None = None
    authority: Path | None = None
    tls_contexts: Mapping[str, ssl.SSLContext] = field(default_factory=dict)

    async def talk(self) -> Dialogue:
        """Open a connection, within TLS where that comes first."""
        if self.way.is_unix:
            reader, writer = await asyncio.open_unix_connection(self.socket_path)
        else:
            context = self.client_context() if self.way is Way.SMTP_TLS else None
            reader, writer = await asyncio.open_connection(self.host, self.port, ssl=context)
        self.stack.callback(writer.close)
        return Dialogue(reader, writer, self)

    def client_context(self) -> ssl.SSLContext:
        """What a client trusts."""
        return ssl.create_default_context(cafile=self.authority)

    async def send(
        self,
        content: bytes,
        recipient: str = "to@example.org",
        sender: str = "from@example.org",
        parameters: Sequence[str] = (),
    ) -> str:
        """Send one message and return the last reply. ``parameters`` are those of MAIL."""
        talk = await self.talk()
        await talk.hello()
        reply = ""
        for line in (" ".join((f"MAIL FROM:<{sender}>", *parameters)), f"RCPT TO:<{recipient}>", "DATA"):
            reply = await talk.say(line)
            if reply[0] not in "23":
                break
        else:
            reply = await talk.content(content)
        talk.writer.write(b"QUIT\r\n")
        await talk.reply()
        talk.writer.close()
        return reply

    def delivered(self) -> list[bytes]:
        """The files in the Maildir, oldest first."""
        files = sorted((self.maildir / "new").glob("*"), key=lambda path: path.stat().st_mtime_ns)
        return [path.read_bytes() for path in files]

    def metric(self, name: str, **labels: str) -> float:
        samples = (sample for family in self.metrics.registry.collect() for sample in family.samples)
        return sum(sample.value for sample in samples if (sample.name, sample.labels) == (name, labels))


class Dialogue:
    """One connection: bytes out, replies in."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, smtp: RunningSmtp) -> None:
        self.reader, self.writer, self._smtp = reader, writer, smtp

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
        """The greeting and the first command; within TLS where clients of this listener begin it."""
        await self.reply()
        hello = await self.say(self._smtp.way.hello)
        if self._smtp.way is Way.SMTP_STARTTLS:
            await self.start_tls()
            hello = await self.say(self._smtp.way.hello)
        return hello

    async def start_tls(self) -> None:
        assert (await self.say("STARTTLS")).startswith("220 2.0.0")
        await self.writer.start_tls(self._smtp.client_context(), server_hostname=self._smtp.host)

    async def content(self, content: bytes) -> str:
        """Send a message after the 354 of DATA and return the reply, the first one where there are several."""
        end = b".\r\n" if not content or content.endswith(b"\r\n") else b"\r\n.\r\n"
        self.writer.write((b"\r\n" + content).replace(b"\r\n.", b"\r\n..")[2:] + end)
        return await self.reply()

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
    """Start an SMTP listener with everything real behind it; ``follow=False`` leaves the follower empty.

    The other options are those of its parts.
    """
    policy = ThresholdPolicy(reject=options.pop("reject", None))
    rules = RecipientRules.build(policy, options.pop("actions", ActionsSettings()), options.pop("rules", ()))
    allow_from = options.pop("allow_from", LOOPBACK)
    trusted_proxies = options.pop("trusted_proxies", LOOPBACK)
    follow = options.pop("follow", True)
    pass_on_failure = options.pop("pass_on_failure", True)
    headers = options.pop("headers", HeaderPolicy("test"))
    max_bytes_in_flight = options.pop("max_bytes_in_flight", 256 << 20)
    max_recipients = options.pop("max_recipients", 1000)
    min_learned = options.pop("min_learned", {"spam": 1, "ham": 1})
    way, certificates = options.pop("way", Way.SMTP), options.pop("certificates", None)
    tls = options.pop("tls", way.tls)
    metrics = DaemonMetrics.create(PYTHON)
    async with AsyncExitStack() as stack:
        filter_policy = FilterPolicy(policy, min_learned, tuple(rule.policy for rule in rules.rules))
        opened = await stack.enter_async_context(open_filter(client, metrics, filter_policy, follow=follow))
        spam_filter, model, followed = opened.spam_filter, opened.model, opened.followed
        ModelGauges(metrics.registry, followed, primary_of(client), lambda: filter_policy)
        next_hop = next_hop or MaildirNextHop(maildir)
        tls_contexts = {way.listener_name: server_context(certificates)} if certificates else {}
        runtime = make_runtime(
            spam_filter,
            rules=rules,
            allow_from=allow_from,
            passes_on_failure=pass_on_failure,
            header_policy=headers,
            tls_contexts=tls_contexts,
        )
        section = LmtpListenerSettings if way.listener_name == "lmtp" else SmtpListenerSettings
        listener = SmtpListener(
            section.model_construct(trusted_proxies=trusted_proxies, tls=tls),
            MessageService(
                way.listener_name,
                runtime,
                metrics.delivery,
                ListenerLimits(**options),
                BytesInFlight(max_bytes_in_flight),
            ),
            next_hop,
            Quarantine(maildir.with_name("Quarantine")),
            "listener.example.org",
            max_recipients,
        )
        path = maildir.with_name(f"{secrets.token_hex(4)}.sock") if way.is_unix else None
        address = UnixAddress(path) if path else TcpAddress("127.0.0.1", 0)
        socket = open_listening_socket(address)
        host, port = ("", 0) if path else socket.getsockname()
        await listener.start(socket)
        stack.push_async_callback(next_hop.close)
        stack.push_async_callback(listener.drain, 0)
        yield RunningSmtp(
            *(host, port, listener, spam_filter, model, followed, metrics, maildir, stack, way, path),
            authority=certificates.authority if certificates else None,
            tls_contexts=tls_contexts,
        )


def server_context(certificates: Certificates) -> ssl.SSLContext:
    """What the listener shows its clients."""
    files = {"tls_cert_file": str(certificates.certificate), "tls_key_file": str(certificates.key)}
    settings = Settings.model_validate({"listeners": {"smtp": {"tls": "may", **files}}})
    return make_tls_contexts(settings)["smtp"]
