"""A task that was cancelled while it spoke with Redis, and may not know."""

from __future__ import annotations

import asyncio


def stop_if_cancelled() -> None:
    """Raise the cancellation that a command lost.

    redis-py sends through ``asyncio.wait_for``, which in Python 3.11 swallows a cancellation that comes as the
    bytes go out (mended in 3.12, cpython#86296).
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
