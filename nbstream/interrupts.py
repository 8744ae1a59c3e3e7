"""Ctrl-C: the first one ends a command in order, the next one ends the process at once, as the system does.

Rules: whatever must not be half done is one atomic step in Redis, and neither Ctrl-C leaves it half done. Where
Ctrl-C is ignored, as in a process in the background, it stays ignored.
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
    """Let Ctrl-C end the process without a word from now on, while there is nothing to end in order."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_interruptible(work: Coroutine[Any, Any, Result]) -> Result:
    """Run ``work`` as ``asyncio.run`` does. Raises ``KeyboardInterrupt`` where Ctrl-C or a signal cancelled it."""
    import asyncio  # noqa: PLC0415 - --help needs no loop, and importing asyncio takes longer than the help

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


def cancel_on(*signals: signal.Signals) -> None:
    """Cancel the present task on those of ``signals`` that are not ignored: what it made is then removed."""
    import asyncio  # noqa: PLC0415 - as above

    task = asyncio.current_task()
    assert task is not None
    for number in signals:
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores SIGHUP
            asyncio.get_running_loop().add_signal_handler(number, task.cancel)


def interrupt_at_once() -> AbstractContextManager[None]:
    """Return a context in which Ctrl-C raises ``KeyboardInterrupt``, for reads that block the loop."""
    return _sigint_handled_by(signal.default_int_handler)


@contextmanager
def _sigint_handled_by(handler: _Handler) -> Iterator[None]:
    """Have ``handler`` called for SIGINT inside; a handler that it has replaced itself by stays at the end."""
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
