"""The cancellation of a task that redis-py may have swallowed."""

from __future__ import annotations

import asyncio
from typing import Any


def stop_if_cancelled() -> None:
    """Raise ``CancelledError`` if the current task was cancelled, although a command swallowed the cancellation.

    A command may have to ask first where the primary is. For that redis-py sends through ``asyncio.wait_for``,
    which in Python 3.11 swallows a cancellation that comes while the bytes are being sent (fixed in 3.12,
    cpython#86296).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


async def cancel_and_wait(task: asyncio.Task[Any]) -> None:
    """Cancel a task, and return when it has ended."""
    while not task.done():  # more than once: see stop_if_cancelled
        task.cancel()
        await asyncio.wait([task], timeout=1)
