"""Group commit: the lessons that wait at the same moment are committed together.

While one group is on its way to Redis, the next one gathers; nothing waits for a group to fill, but answers go out
before the next one begins. A lesson that is alone is a group too. Whoever stops waiting takes his lesson along,
unless its group is on its way: that is committed as a whole all the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from nbstream.errors import CountsFull, NbstreamError, StoreUnavailable
from nbstream.store.model.ledger import LedgerConflict
from nbstream.store.model.scripts import MAX_BATCH_LESSONS

if TYPE_CHECKING:
    from nbstream.filter.known_counts import KnownCounts
    from nbstream.filter.lesson_batch import LessonBatches, WantedLesson
    from nbstream.filter.lesson_plan import PlannedLesson
    from nbstream.filter.results import Lesson
    from nbstream.store.model.ledger import LedgerEntry

_MAX_WAITING = 1024  # lessons: some 50 MB of tokens
_ANSWER_SECONDS = 15.0  # a group alone may take two commands of 5 seconds

_TURNS_BETWEEN = 10  # of the event loop: answers are sent, and what has come meanwhile joins the next group

_LearnAlone: TypeAlias = "Callable[[WantedLesson, LedgerEntry | None], Awaitable[Lesson]]"
_Learned: TypeAlias = "Lesson | PlannedLesson"
_Group: TypeAlias = "Mapping[str, _WaitingLesson]"


@dataclass(frozen=True, slots=True)
class _WaitingLesson:
    wanted: WantedLesson
    learn_alone: _LearnAlone
    done: asyncio.Future[_Learned | LedgerConflict]
    """What was learned, or what the ledger has where it has to be taught by itself."""

    def finish(self, answer: _Learned | LedgerConflict) -> None:
        if not self.done.done():  # else nobody waits any more
            self.done.set_result(answer)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class GroupCommit:
    """Teaches the lessons of several callers together, in a task that is in ``groups`` until it ends."""

    def __init__(
        self,
        batches: LessonBatches,
        make_known_counts: Callable[[], KnownCounts],
        groups: set[asyncio.Task[None]],
    ) -> None:
        self._batches = batches
        self._make_known_counts = make_known_counts
        self._groups = groups
        self._waiting: deque[_WaitingLesson] = deque()
        self._committing: asyncio.Task[None] | None = None

    async def learn(self, wanted: WantedLesson, learn_alone: _LearnAlone) -> _Learned:
        """Teach a message a class; return the lesson as it was planned and made, or what ``learn_alone`` returns.

        That teaches it by itself, given its ledger entry as far as it is known, where the ledger or that of the
        autolearn layer has anything of it. Raises ``StoreUnavailable``, also where too many lessons wait, and
        what teaching it alone raises.
        """
        if len(self._waiting) >= _MAX_WAITING:
            raise StoreUnavailable("too many lessons wait for Redis")
        waiting = _WaitingLesson(wanted, learn_alone, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_groups())
            self._groups.add(self._committing)
            self._committing.add_done_callback(self._groups.discard)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                answer = await waiting.done
        except TimeoutError as error:
            raise StoreUnavailable("Redis is too slow for the lessons that wait") from error
        return await learn_alone(wanted, answer.entry) if isinstance(answer, LedgerConflict) else answer

    async def _commit_groups(self) -> None:
        """Teach until no lesson waits. What waits when this task is cancelled, as at the end, is refused."""
        group: _Group = {}
        try:
            while group := self._next_group():
                try:
                    await self._commit_group(group)
                except Exception as error:  # noqa: BLE001 - it is the answer to those who wait
                    for waiting in group.values():
                        waiting.fail(error)
                for _ in range(_TURNS_BETWEEN if self._waiting else 0):
                    await asyncio.sleep(0)
        finally:
            self._committing = None
            for waiting in (*group.values(), *self._waiting):
                waiting.fail(StoreUnavailable("the lesson was interrupted, and may be repeated"))
            self._waiting.clear()

    def _next_group(self) -> _Group:
        """Take the lessons that wait, up to the second one of a message: it is another group's."""
        group: dict[str, _WaitingLesson] = {}
        while self._waiting and len(group) < MAX_BATCH_LESSONS:
            if self._waiting[0].wanted.message.key in group:
                break
            waiting = self._waiting.popleft()
            if not waiting.done.done():
                group[waiting.wanted.message.key] = waiting
        return group

    async def _commit_group(self, group: _Group) -> None:
        lessons = [waiting.wanted for waiting in group.values()]
        # Most messages that are learned are new. Therefore no ledger is looked at: the commit finds the others.
        known_counts = self._make_known_counts()
        to_plan = await self._batches.read(lessons, [None] * len(lessons), known_counts, withdraws=False)
        plans = self._batches.plan(to_plan, known_counts, 1)
        async with aclosing(plans) as parts:
            async for part in parts:
                for wanted, answer in await self._batches.commit(part):
                    waiting = group[wanted.message.key]
                    # Where the counts are full, the ledger may have an entry all the same.
                    learned = LedgerConflict(None) if isinstance(answer, CountsFull) else answer
                    if isinstance(learned, LedgerConflict) and len(group) == 1:  # the next may be of its message
                        learned = await waiting.learn_alone(wanted, learned.entry)
                    if isinstance(learned, NbstreamError):
                        waiting.fail(learned)
                    else:
                        waiting.finish(learned)
