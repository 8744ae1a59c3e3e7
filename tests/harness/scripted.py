"""Next hops of the package over scripted servers, one for each transcript."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from nbstream.delivery.settings import RelaySettings
from nbstream.delivery.smtp_next_hop import SmtpNextHop, SmtpServer
from tests.harness.scripted_server import ScriptedServer

Play = Callable[..., Awaitable[ScriptedServer]]
Relay = Callable[..., SmtpNextHop]


@pytest.fixture
async def play() -> AsyncIterator[Play]:
    """Start a server that plays these transcripts."""
    async with AsyncExitStack() as stack:

        async def start(*transcripts: str, **options: Any) -> ScriptedServer:
            server = ScriptedServer(transcripts, **options)
            await server.start()
            stack.push_async_callback(server.stop)
            return server

        yield start


@pytest.fixture
async def relay_to() -> AsyncIterator[Relay]:
    """Make a relay to a server, with these limits."""
    async with AsyncExitStack() as stack:

        def make(
            server: ScriptedServer, *, max_connections: int = 200, max_idle_seconds: float = 30, **deadlines: float
        ) -> SmtpNextHop:
            next_hop = SmtpNextHop(
                SmtpServer(server.host, server.port),
                RelaySettings(**deadlines),  # type: ignore[arg-type]  # by name
                max_connections=max_connections,
                max_idle_seconds=max_idle_seconds,
            )
            stack.push_async_callback(next_hop.close)
            return next_hop

        yield make
