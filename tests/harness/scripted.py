"""Next hops of the package over scripted servers, one for each transcript."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from nbstream.delivery.settings import RelaySettings
from nbstream.delivery.smtp_next_hop import SmtpNextHop
from tests.harness.scripted_server import ScriptedServer

Play = Callable[..., Awaitable[ScriptedServer]]
Relay = Callable[..., SmtpNextHop]


def relay_at(port: int, *, lmtp: bool = False, **values: Any) -> RelaySettings:
    """Return the section of a server on this machine; ``values`` are further ones of it."""
    protocol = "lmtp" if lmtp else "smtp"
    return RelaySettings.model_validate({"next_hop": f"{protocol}://127.0.0.1:{port}", **values})


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
            server: ScriptedServer,
            *,
            max_connections: int = 200,
            max_idle_seconds: float = 30,
            connect_seconds: float = SmtpNextHop.connect_seconds,
            **values: Any,
        ) -> SmtpNextHop:
            next_hop = SmtpNextHop(
                relay_at(server.port, **values),
                max_connections=max_connections,
                max_idle_seconds=max_idle_seconds,
            )
            next_hop.connect_seconds = connect_seconds
            stack.push_async_callback(next_hop.close)
            return next_hop

        yield make
