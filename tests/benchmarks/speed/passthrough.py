"""Mail passed on by aiosmtpd and aiosmtplib alone, as far as Python's own I/O goes: no filter, no header, no log.

    python -m tests.benchmarks.speed.passthrough PORT NEXT_PORT

The incoming connection keeps one to the next hop, as nbstream does.
"""

from __future__ import annotations

import asyncio
import sys

import aiosmtplib
import uvloop
from aiosmtpd.smtp import SMTP, Envelope, Session


class PassOn:
    """Hands each message to the next hop, and answers once that has."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._clients: dict[Session, aiosmtplib.SMTP] = {}

    async def handle_DATA(self, _server: SMTP, session: Session, envelope: Envelope) -> str:
        client = self._clients.get(session)
        if client is None:
            client = self._clients[session] = aiosmtplib.SMTP(
                hostname="127.0.0.1", port=self._port, use_tls=False, start_tls=False
            )
            await client.connect()
        assert envelope.mail_from is not None
        assert isinstance(envelope.original_content, bytes)
        await client.sendmail(envelope.mail_from, envelope.rcpt_tos, envelope.original_content)
        return "250 passed on"


async def main() -> None:
    """Serve until the process is ended."""
    port, next_port = map(int, sys.argv[1:])
    loop, handler = asyncio.get_running_loop(), PassOn(next_port)
    limit = 100 << 20
    server = await loop.create_server(
        lambda: SMTP(handler, data_size_limit=limit, hostname="bench", loop=loop), "127.0.0.1", port
    )
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
