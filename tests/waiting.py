"""Waiting for the state of something that runs elsewhere, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

DEADLINE_SECONDS = 20.0


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = DEADLINE_SECONDS) -> None:
    """Return once ``condition`` holds; fails the test when it does not within ``seconds``."""
    async with asyncio.timeout(seconds):
        while True:
            result = condition()
            if await result if inspect.isawaitable(result) else result:
                return
            await asyncio.sleep(0.01)  # what is waited for has no event to wait on
