"""Ctrl-C: the first ends a command in order, the next one ends the process at once, as the system does.

Rules: whatever must not be half done is one step of Redis, so neither leaves it so. Where Ctrl-C is ignored, as in
a process beside the one that the terminal is for, it stays so.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import FrameType
from typing import Any, TypeAlias, TypeVar

Result = TypeVar("Result")
_Handler: TypeAlias = Callable[[int, FrameType | None], object]


def exit_silently() -> None:
    """From now on Ctrl-C ends the process without a word, while there is nothing to end in order."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """``asyncio.run``; raises ``KeyboardInterrupt`` where the first Ctrl-C, or anything else, cancelled it."""
    import asyncio  # noqa: PLC0415 - a third of the time that --help takes

    async def interruptible() -> Result:
        loop, task = asyncio.get_running_loop(), asyncio.current_task()
        assert task is not None

        def interrupted(number: int, frame: FrameType | None) -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            loop.call_soon_threadsafe(task.cancel)

        with _sigint_handled_by(interrupted):
            return await work

    try:
        return asyncio.run(interruptible())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def interrupt_at_once() -> AbstractContextManager[None]:
    """Inside, where the loop may stand still and wait for input, Ctrl-C raises ``KeyboardInterrupt``."""
    return _sigint_handled_by(signal.default_int_handler)


@contextmanager
def _sigint_handled_by(handler: _Handler) -> Iterator[None]:
    """Inside, this is what hears Ctrl-C; with what it then puts in its own place that stays so."""
    before = signal.getsignal(signal.SIGINT)
    if before == signal.SIG_IGN:
        yield
        return
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is handler:
            signal.signal(signal.SIGINT, before)
