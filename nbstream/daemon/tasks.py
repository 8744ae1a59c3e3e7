"""How tasks are ended."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and return when it has ended."""
    while not task.done():  # more than once: see store.cancellation.stop_if_cancelled
        task.cancel()
        await asyncio.wait([task], timeout=1)
