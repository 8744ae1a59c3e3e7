"""A mail server of aiosmtpd on a free port, which keeps what it gets."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP
from aiosmtpd.smtp import Envelope as SmtpEnvelope


@dataclass(frozen=True)
class ReceivedMail:
    """A message that was accepted."""

    sender: str
    recipients: list[str]
    content: bytes


@dataclass
class MailServer:
    """A server that takes all mail.

    ``reply_to`` are the replies to some recipients, ``data_reply`` is the one to a message.
    A message to ``silent_for`` gets no reply while its client waits; ``is_silent`` says that one is there.
    """

    host: str
    port: int
    received: list[ReceivedMail] = field(default_factory=list)
    reply_to: dict[str, str] = field(default_factory=dict)
    data_reply: str = "250 2.0.0 queued"
    listener: asyncio.Server | None = None
    silent_for: str = ""
    is_silent: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        """Take no more connections."""
        assert self.listener
        self.listener.close()

    async def handle_RCPT(
        self, _server: SMTP, _session: object, envelope: SmtpEnvelope, address: str, _options: list[str]
    ) -> str:
        reply = self.reply_to.get(address, "250 2.1.5 ok")
        if reply.startswith("250"):
            envelope.rcpt_tos.append(address)
        return reply

    async def handle_DATA(self, _server: SMTP, _session: object, envelope: SmtpEnvelope) -> str:
        if self.silent_for in envelope.rcpt_tos:
            self.is_silent.set()
            await asyncio.Event().wait()
        if self.data_reply.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.received.append(ReceivedMail(envelope.mail_from or "", list(envelope.rcpt_tos), envelope.content))
        return self.data_reply


@asynccontextmanager
async def open_mail_server(*, lmtp: bool = False) -> AsyncIterator[MailServer]:
    """Run a server on the loopback interface."""
    listening = socket.create_server(("127.0.0.1", 0))
    server = MailServer(*listening.getsockname())
    protocol = LMTP if lmtp else SMTP
    loop = asyncio.get_running_loop()
    server.listener = await loop.create_server(
        lambda: protocol(server, enable_SMTPUTF8=True, decode_data=False), sock=listening
    )
    try:
        yield server
    finally:
        server.close()
