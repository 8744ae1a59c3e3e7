"""The end of a task that is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and return when it has ended."""
    # Again after a second: libraries use asyncio.wait_for, which in Python 3.11 swallows a cancellation that comes
    # at the moment of a result (fixed in 3.12, cpython#86296).
    while not task.done():
        task.cancel()
        await asyncio.wait([task], timeout=1)
