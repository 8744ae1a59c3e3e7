"""Checks wait for their turn, so that the event loop can do other work between two checks.

A check holds the event loop for about a millisecond, a reply or a command to the next hop for a hundredth of
that. Where the checks of a burst follow each other directly, each of the ten steps of a message through the SMTP
listener waits for all of them: the slowest hundredth of the messages took 27 ms instead of 18 ms (see
docs/experiments.md).
"""

from __future__ import annotations

import asyncio
from collections import deque


class CheckQueue:
    """Lets one check begin in each turn of the event loop, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._busy = False

    async def wait_for_turn(self) -> None:
        """Return when it is the caller's turn: at once if no check has begun in this turn of the loop.

        A caller that is cancelled leaves the queue.
        """
        loop = asyncio.get_running_loop()
        if not self._busy:
            self._busy = True
            loop.call_soon(self._wake_next)
            return
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _wake_next(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else its caller was cancelled
                turn.set_result(None)
                asyncio.get_running_loop().call_soon(self._wake_next)
                return
        self._busy = False
