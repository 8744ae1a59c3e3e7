"""``page.loop_time``: the time of a coroutine's own steps."""

from __future__ import annotations

import asyncio

import pytest

from nbstream.listeners.http.page.live_now import LoopTime


class Clock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    async def work(self, seconds: float, times: int = 1) -> str:
        """Hold the loop that often for so many seconds; others run in between."""
        for _ in range(times):
            self.now += seconds
            await asyncio.sleep(0)
        return "done"


async def test_only_the_steps_of_the_coroutine_count() -> None:
    clock = Clock()
    held = LoopTime(clock)

    done, _ = await asyncio.gather(held.measure(clock.work(1.0, 3)), clock.work(100.0, 3))

    assert done == "done"
    assert held.seconds == 3.0


async def test_several_are_added_up() -> None:
    clock = Clock()
    held = LoopTime(clock)
    for _ in range(2):
        await held.measure(clock.work(1.0))
    assert held.seconds == 2.0


async def test_a_fault_and_a_cancellation_pass_through_it() -> None:
    clock = Clock()
    held, handled = LoopTime(clock), list[str]()

    async def fail() -> None:
        clock.now += 1.0
        raise KeyError("fault")

    async def wait_for_ever() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock.now += 1.0
            handled.append("cancelled")

    with pytest.raises(KeyError):
        await held.measure(fail())
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await held.measure(wait_for_ever())
    assert handled == ["cancelled"]
    assert held.seconds == 2.0
