"""Waiting for the state of something that runs elsewhere, with a deadline."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

DEADLINE_SECONDS = 60.0
"""When a test fails that waits in vain. A busy machine takes much of it where a quiet one takes none."""


async def until(condition: Callable[[], bool | Awaitable[bool]], seconds: float = DEADLINE_SECONDS) -> None:
    """Return once ``condition`` holds; fails the test when it does not within ``seconds``."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    async with asyncio.timeout_at(end):
        # Asked anew each time: a library may swallow the one cancellation at the deadline (store/cancellation.py).
        while loop.time() < end:
            result = condition()
            if await result if inspect.isawaitable(result) else result:
                return
            await asyncio.sleep(0.01)  # what is waited for has no event to wait on
        raise TimeoutError


async def ended(task: asyncio.Task[Any]) -> None:
    """Cancel the task and return when it is done; what waits for Redis may need more than one cancellation."""
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1)
