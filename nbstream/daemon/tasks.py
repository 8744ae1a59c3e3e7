"""Tasks that come to their end."""

from __future__ import annotations

import asyncio
from typing import Any


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Return when the task is cancelled and done."""
    while not task.done():  # more than once: see cancelling.stop_if_cancelled
        task.cancel()
        await asyncio.wait([task], timeout=1)
