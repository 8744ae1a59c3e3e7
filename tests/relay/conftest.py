from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from nbstream.relay.smtp_connections import NextHopLimits
from nbstream.relay.smtp_next_hop import SmtpNextHop

from .scripted_hop import ScriptedHop

Play = Callable[..., Awaitable[ScriptedHop]]
Relay = Callable[..., SmtpNextHop]


@pytest.fixture
async def play() -> AsyncIterator[Play]:
    """Start a hop that plays these transcripts."""
    async with AsyncExitStack() as stack:

        async def start(*transcripts: str) -> ScriptedHop:
            hop = ScriptedHop(transcripts)
            await hop.start()
            stack.push_async_callback(hop.stop)
            return hop

        yield start


@pytest.fixture
async def relay_to() -> AsyncIterator[Relay]:
    """Make a relay to a hop, with these params."""
    async with AsyncExitStack() as stack:

        def make(hop: ScriptedHop, **params: float) -> SmtpNextHop:
            next_hop = SmtpNextHop(hop.host, hop.port, NextHopLimits(**params))  # type: ignore[arg-type]  # by name
            stack.push_async_callback(next_hop.close)
            return next_hop

        yield make
