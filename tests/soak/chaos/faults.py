"""Carries out the events of a schedule.

Rules: events at one target are carried out one after the other, those at different targets at the same time. A
fault has ended when what it hit works again; then the journal says from when to when it was. Where everything
takes so long that the run would not end, the rest of the events is left out, and the journal says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TypeAlias

from tests.soak.chaos.journal import Fault, Journal
from tests.soak.chaos.schedule import HOSTS, Event, Kind

Actions: TypeAlias = Mapping[Kind, Callable[[Event], Awaitable[None]]]
"""What is done for an event of each kind; it returns when what it hit works again."""


class Faults:
    """The faults of one site; none begins later than ``last_begin``, in seconds since the begin of the run."""

    def __init__(self, actions: Actions, journal: Journal, last_begin: float) -> None:
        self._actions = actions
        self._journal = journal
        self._last_begin = last_begin
        self._locks = {target: asyncio.Lock() for target in (*HOSTS, "redis", "hop")}

    async def run(self, events: Sequence[Event]) -> None:
        """Carry out the schedule, and return when all faults have ended."""
        journal = self._journal
        async with asyncio.TaskGroup() as group:
            for event in events:
                await asyncio.sleep(max(0.0, event.at - journal.now()))
                group.create_task(self._carry_out(event))

    async def _carry_out(self, event: Event) -> None:
        journal, targets = self._journal, HOSTS if event.target == "all" else (event.target,)
        async with AsyncExitStack() as stack:
            for target in targets:
                await stack.enter_async_context(self._locks[target])
            begun = journal.now()
            if begun > self._last_begin:
                journal.note("left out", number=event.number, kind=event.kind, target=event.target)
                return
            journal.note("fault", number=event.number, kind=event.kind, target=event.target, seconds=event.seconds)
            try:
                await self._actions[event.kind](event)
            except TimeoutError:
                journal.add_problem(f"nothing recovered from event {event.number} ({event.kind}, {event.target})")
            journal.add_fault(Fault(event.kind, event.target, begun, journal.now()))
