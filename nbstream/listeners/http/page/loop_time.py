"""For how long a coroutine holds the event loop.

Rule: its own work is what counts, in processor time. By the clock on the wall, a machine on which others have much
to do would make 3 ms of work 50.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, TypeVar

_Result = TypeVar("_Result")


class LoopTime:
    """Adds up for how long coroutines hold the event loop: their own steps, without what they wait for."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self.seconds = 0.0

    @types.coroutine
    def measure(self, coroutine: Coroutine[Any, Any, _Result]) -> Generator[Any, None, _Result]:
        """Return the result of a coroutine, and add its time."""
        step: Callable[[], Any] = partial(coroutine.send, None)
        while True:
            begun = self._clock()
            try:
                waits_for = step()
            except StopIteration as end:
                result: _Result = end.value
                return result
            finally:
                self.seconds += self._clock() - begun
            try:
                yield waits_for
            except BaseException as error:  # noqa: BLE001 - a cancellation too is for the coroutine
                step = partial(coroutine.throw, error)
            else:
                step = partial(coroutine.send, None)
