"""Many lessons at once: while one group of them is taught, the next one waits, and the messages of a third come.

Memory holds the tokens of four groups. After an interruption all may be taught again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.errors import NbstreamError, StoreIncompatible
from nbstream.filter import lesson_groups
from nbstream.filter.results import Lesson
from nbstream.store.cancellation import cancel_and_wait

if TYPE_CHECKING:
    from nbstream.filter.lesson_groups import LessonGroups, WaitingLesson
    from nbstream.filter.lesson_plan import Feedback

ReportResult: TypeAlias = "Callable[[Lesson | StoreIncompatible], object]"


async def learn_all(groups: LessonGroups, feedbacks: AsyncIterator[Feedback], report_result: ReportResult) -> None:
    """Teach many lessons; the result is the same as if they were taught one after another.

    ``report_result`` is called with each lesson in order, or with the error where the ledger entry of a message
    cannot be read. Raises what ``LessonGroups.learn`` raises, and nothing is reported after a lesson that failed,
    although it may be made: whoever counts the reports knows by them how far the messages are learned. What is on
    its way when this is cancelled, or when ``feedbacks`` fail, is made and reported.
    """
    pending: deque[WaitingLesson] = deque()
    async with aclosing(_split(feedbacks)) as portions:

        async def read_next() -> Sequence[Feedback] | None:
            return await anext(portions, None)

        reading: asyncio.Task[Sequence[Feedback] | None] | None = asyncio.create_task(read_next())
        try:
            while reading or pending:
                awaited: list[asyncio.Future[Any]] = [pending[0].done] if pending else []
                if reading and len(pending) <= lesson_groups.GROUP_SIZE:
                    awaited.append(reading)
                await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
                _report_done(pending, report_result)
                if reading and reading in awaited and reading.done():
                    portion = reading.result()
                    pending += groups.add(portion or ())
                    reading = asyncio.create_task(read_next()) if portion else None
        finally:
            if reading:
                await cancel_and_wait(reading)
            begun = deque(lesson for lesson in pending if groups.has_begun(lesson))
            for lesson in pending:
                if lesson not in begun:
                    lesson.done.cancel()
            if begun:
                await asyncio.wait([lesson.done for lesson in begun])
            with suppress(NbstreamError):  # the error that ends this is raised already
                _report_done(begun, report_result)
            for lesson in begun:
                lesson.done.exception()  # nobody asks for it any more


async def _split(feedbacks: AsyncIterator[Feedback]) -> AsyncGenerator[Sequence[Feedback], None]:
    """Yield the lessons in order, as many at a time as a group may have."""
    portion: list[Feedback] = []
    async for feedback in feedbacks:
        portion.append(feedback)
        if len(portion) == lesson_groups.GROUP_SIZE:
            yield portion
            portion = []
    if portion:
        yield portion


def _report_done(pending: deque[WaitingLesson], report_result: ReportResult) -> None:
    """Report the first lessons that are done, and raise the error of one that failed."""
    while pending and pending[0].done.done():
        message = pending[0].feedback.message
        try:
            result: Lesson | StoreIncompatible = pending[0].done.result()
        except StoreIncompatible as error:
            result = StoreIncompatible(f"{message.key}: {error}")
            result.__cause__ = error
        pending.popleft()
        report_result(result)
