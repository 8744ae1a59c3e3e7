"""A mail server that takes what it is sent: the next hop of tests."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiosmtpd.lmtp import LMTP
from aiosmtpd.smtp import SMTP, Envelope, Session


@dataclass
class Sink:
    """A mail server that takes everything except the recipients in ``refuse``."""

    refuse: Mapping[str, str] = field(default_factory=dict)
    answer: str = "250 2.0.0 queued as 42"
    taken: list[tuple[str | None, list[str], bytes]] = field(default_factory=list)

    async def handle_RCPT(
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuse:
            return self.refuse[address]
        envelope.rcpt_tos.append(address)
        return "250 2.1.5 fine"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        assert isinstance(envelope.content, bytes)
        self.taken.append((envelope.mail_from, list(envelope.rcpt_tos), envelope.content))
        return self.answer


@asynccontextmanager
async def open_sink(sink: Sink, *, lmtp: bool = False) -> AsyncIterator[int]:
    """Run the server, which speaks SMTP or LMTP, on loopback; yield its port."""
    server = await asyncio.get_running_loop().create_server(
        lambda: (LMTP if lmtp else SMTP)(sink, hostname="next-hop.test", enable_SMTPUTF8=True), "127.0.0.1", 0
    )
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
