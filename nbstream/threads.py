"""Work on large messages, which must not make the event loop stand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

LARGE_BYTES = 256 * 1024
"""A message of more bytes is searched, read and rewritten in a thread. That the event loop does not stand for
what is smaller, is measured by tests/listeners/test_loop_work.py.
"""

P = ParamSpec("P")
Result = TypeVar("Result")


async def in_thread_if_large(size: int, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs) -> Result:
    """Return what ``work`` returns for these arguments, of about ``size`` bytes: in a thread if they are large."""
    if size > LARGE_BYTES:
        return await asyncio.to_thread(work, *args, **kwargs)
    return work(*args, **kwargs)
