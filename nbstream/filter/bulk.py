"""Teach many messages in batches: ledger and counts are read once for each, and its lessons are written in parts.

While Redis writes a part, the next ones are planned, and the next batch is read: its messages, and what Redis has
of them.

Rules:

- A batch is planned and committed as ``lesson_batch`` says. After an interruption all may be taught again.
- Each message has its own label. One that comes twice is taught twice, one lesson after the other. Where it has
  the same label both times the second lesson changes nothing, and is planned without waiting for the first one.
- A label that a message has already changes nothing. Where the source insists, each message is taught alone.
- A message whose ledger entry cannot be read is reported, and the others are taught all the same.
- What Redis has of a batch is read ahead only where the lessons of the two batches before do not change it. Where
  those of an earlier one still do, as those of others may, the commit says that the ledger has something else.
- Memory holds the tokens of four batches, and the ``KnownCounts``.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Coroutine,
    Mapping,
    Sequence,
)
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.errors import NbstreamError, StoreIncompatible
from nbstream.filter.lesson_batch import WantedLesson
from nbstream.filter.lesson_plan import PlannedLesson
from nbstream.filter.results import Lesson
from nbstream.policy.lesson_source import Insistence
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.known_counts import KnownCounts
    from nbstream.filter.lesson_batch import BatchAnswer, LessonBatches, LessonPart, LessonsToPlan
    from nbstream.filter.sources import LessonStore
    from nbstream.policy.lesson_source import LessonSource
    from nbstream.tokens.tokenizer import TokenizedMessage


BATCH_SIZE = 256  # most of their tokens come in several of them; 512 are no faster
_COMMITS_AT_ONCE = 2  # while one is packed or answered, Redis has another one to do
_LESSONS_A_TURN = 8  # of the event loop, which costs 20 µs: some milliseconds

LabelledTokens: TypeAlias = "tuple[TokenizedMessage, str | None]"
"""The tokens of a message, and the class that they are learned into; None takes the message back."""

Batch: TypeAlias = "Sequence[LabelledTokens]"

_Commit: TypeAlias = "asyncio.Task[None]"
_StartCommit: TypeAlias = "Callable[[_Commit | None], Coroutine[None, None, None]]"
"""Gets the commit before this one, since lessons are reported in order."""


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What all lessons of one call have in common.

    ``report_result`` is called with each lesson, in order, or with the error where a message was not taught.
    """

    lesson_source: LessonSource
    report_result: Callable[[Lesson | StoreIncompatible], object]

    @property
    def batch_size(self) -> int:
        """The messages of one batch: a single one where it may be insisted on, since a batch never insists."""
        return BATCH_SIZE if self.lesson_source.insistence is Insistence.NEVER else 1


class BulkLearner:
    """Teaches in batches.

    ``batches`` plans and commits them. ``learn_one`` teaches one message: where a batch has only one, and where
    others changed a message meanwhile.
    """

    def __init__(
        self,
        model: LessonStore,
        batches: LessonBatches,
        known_counts: KnownCounts,
        learn_one: Callable[[WantedLesson], Awaitable[Lesson]],
    ) -> None:
        self._model = model
        self._batches = batches
        self._known_counts = known_counts
        self._learn_one = learn_one

    async def learn_all(self, messages: AsyncIterator[LabelledTokens], request: BulkRequest) -> None:
        """Teach all messages; the result is the same as if they were taught one after another.

        Raises ``StoreUnavailable`` and ``CountsFull``. A message that was not reported by then may have been
        learned or not; all messages may be taught again.
        """
        commits: deque[_Commit] = deque()
        try:
            async with (
                aclosing(_split_batches(messages, request.batch_size)) as batches,
                aclosing(_read_ahead(batches)) as batches_read,
                aclosing(self._read_stored(batches_read, request, commits)) as batches_to_plan,
            ):
                async for batch in batches_to_plan:
                    async with aclosing(self._plan_batch(batch, request)) as parts:
                        async for part in parts:
                            await _wait_for_commits(commits, left=_COMMITS_AT_ONCE - 1)
                            commits.append(asyncio.create_task(part(commits[-1] if commits else None)))
            await _wait_for_commits(commits, left=0)
        finally:
            if commits:  # what is on its way to Redis is reported, even if an error ends the rest
                await _end_commits(commits)

    async def _read_stored(
        self, batches: AsyncGenerator[Batch, None], request: BulkRequest, commits: deque[_Commit]
    ) -> AsyncGenerator[LessonsToPlan | WantedLesson, None]:
        """Yield the batches with what Redis has of them. While one is planned, that of the next one is read."""
        former: Batch = ()
        batch, to_plan = await anext(batches, None) or (), None
        while batch:
            if to_plan is None:
                await _wait_for_commits(commits, left=0)
                to_plan = await self._read_batch(batch, request)
            reading = asyncio.create_task(self._read_next(batches, batch, former, request))
            try:
                yield to_plan
                stop_if_cancelled()
                former, (batch, to_plan) = batch, await reading
            finally:
                await _cancel([reading])

    async def _read_next(
        self, batches: AsyncGenerator[Batch, None], batch: Batch, former: Batch, request: BulkRequest
    ) -> tuple[Batch, LessonsToPlan | WantedLesson | None]:
        """Return the batch after the two, with what Redis has of it; without that, if it depends on their lessons.

        A message that is taught alone is not among the known counts.
        """
        following, before = await anext(batches, None) or (), _labels_of((*former, *batch))
        changes_again = any(_changes_again(before, message, label) for message, label in following)
        if len(batch) == 1 or len(following) <= 1 or changes_again:
            return following, None
        lessons, entries = _wanted_lessons(following, request, before), await self._entries(following)
        return following, await self._batches.read_ahead(lessons, entries, self._known_counts)

    async def _read_batch(self, batch: Batch, request: BulkRequest) -> LessonsToPlan | WantedLesson:
        lessons = _wanted_lessons(batch, request, {})
        if len(lessons) == 1:
            return lessons[0]
        return await self._batches.read(lessons, await self._entries(batch), self._known_counts)

    async def _entries(self, batch: Batch) -> Sequence[LedgerEntry | StoreIncompatible | None]:
        return await self._model.entries([message.key for message, _ in batch])

    async def _plan_batch(
        self, batch: LessonsToPlan | WantedLesson, request: BulkRequest
    ) -> AsyncGenerator[_StartCommit, None]:
        """Plan a batch, and yield for each part the rest of the work, which mostly waits for Redis."""
        if isinstance(batch, WantedLesson):
            yield partial(self._learn_single, batch, request)
            return
        plans = self._batches.plan(batch, self._known_counts, _LESSONS_A_TURN)
        async with aclosing(plans) as parts:
            async for part in parts:
                yield partial(self._commit_part, part, request)

    async def _learn_single(self, wanted: WantedLesson, request: BulkRequest, _: _Commit | None) -> None:
        message = wanted.message
        try:
            lesson = await self._learn_one(wanted)
        except StoreIncompatible as error:
            request.report_result(_with_message_key(message, error))
        else:
            request.report_result(lesson)

    async def _commit_part(self, part: LessonPart, request: BulkRequest, former: _Commit | None) -> None:
        """Write the planned lessons of a part, and report all of its lessons once ``former`` has reported its own.

        After one that failed nothing is reported, although it may be learned: whoever counts the reports knows
        by them how far the messages are learned.
        """
        answers = await self._batches.commit(part)
        if former:
            await asyncio.wait([former])
            former.result()
        lost = await self._lost_repeats([wanted for wanted, _ in answers if wanted.is_repeat])
        for wanted, answer in answers:
            is_lost = wanted.is_repeat and wanted.message.key in lost
            result = await self._result(wanted, LedgerConflict(None) if is_lost else answer)
            if isinstance(result, Lesson):
                label = part.withdrawn.get(wanted.message.key)
                request.report_result(result.with_withdrawn_label(label) if isinstance(label, str) else result)
            elif isinstance(result, StoreIncompatible):
                request.report_result(_with_message_key(wanted.message, result))
            else:
                raise result

    async def _result(self, wanted: WantedLesson, answer: BatchAnswer) -> Lesson | NbstreamError:
        if isinstance(answer, PlannedLesson):
            return answer.result(answer.after)
        if not isinstance(answer, LedgerConflict):
            return answer
        try:
            return await self._learn_one(wanted)
        except NbstreamError as error:
            return error

    async def _lost_repeats(self, repeats: Sequence[WantedLesson]) -> Collection[str]:
        """Return the keys of messages that have not the class which a lesson before was to give them.

        Nor have those whose entry cannot be read. Teaching one of them alone says what is so, and mends it.
        """
        entries = await self._model.entries([repeat.message.key for repeat in repeats]) if repeats else []
        return {
            repeat.message.key
            for repeat, entry in zip(repeats, entries, strict=True)
            if not (isinstance(entry, LedgerEntry) and entry.class_name == repeat.class_name)
        }


def _wanted_lessons(
    batch: Batch, request: BulkRequest, before: Mapping[str, str | None]
) -> Sequence[WantedLesson]:
    """Return the lessons of a batch; ``before`` are the labels by message key of those before it."""
    labels, lessons = dict(before), []
    for message, label in batch:
        lessons.append(WantedLesson(message, label, request.lesson_source, is_repeat=message.key in labels))
        labels[message.key] = label
    return lessons


def _changes_again(labels: Mapping[str, str | None], message: TokenizedMessage, label: str | None) -> bool:
    """Whether a lesson depends on one before it, which was to give its message the label that ``labels`` has."""
    return message.key in labels and (label is None or labels[message.key] != label)


def _labels_of(batch: Batch) -> dict[str, str | None]:
    return {message.key: label for message, label in batch}


async def _split_batches(messages: AsyncIterator[LabelledTokens], batch_size: int) -> AsyncGenerator[Batch, None]:
    """Yield the messages in order, in batches that change no message twice."""
    batch: list[LabelledTokens] = []
    labels: dict[str, str | None] = {}
    async for message, label in messages:
        if len(batch) == batch_size or _changes_again(labels, message, label):
            yield batch
            batch, labels = [], {}
        batch.append((message, label))
        labels[message.key] = label
    if batch:
        yield batch


async def _read_ahead(batches: AsyncGenerator[Batch, None]) -> AsyncGenerator[Batch, None]:
    """Yield the batches; while one is taught, the messages of the next one are read."""

    async def read_next() -> Batch | None:
        return await anext(batches, None)

    following = asyncio.create_task(read_next())
    try:
        while batch := await following:
            following = asyncio.create_task(read_next())
            yield batch
            stop_if_cancelled()  # the wait would not notice it for as long as no message comes
    finally:
        await _cancel([following])


async def _wait_for_commits(commits: deque[_Commit], left: int) -> None:
    """Wait for the first ones until so many are left, and raise what they raised. The tasks go on if cancelled."""
    while len(commits) > left:
        await asyncio.wait([commits[0]])
        commits.popleft().result()


async def _end_commits(commits: Collection[_Commit]) -> None:
    """Wait for the tasks, whatever becomes of them. A cancelled wait cancels them: nobody else ends them."""
    try:
        await asyncio.wait(commits)
    finally:
        await _cancel(commits)


async def _cancel(tasks: Collection[asyncio.Task[Any]]) -> None:
    """Cancel the tasks that have not ended, and wait for their end. A cancelled wait cancels them once more."""
    interruption: asyncio.CancelledError | None = None
    while left := [task for task in tasks if not task.done()]:
        for task in left:  # more than once: see store.cancellation.stop_if_cancelled
            task.cancel()
        try:
            await asyncio.wait(left, timeout=1)
        except asyncio.CancelledError as error:
            interruption = error
    for task in tasks:
        if not task.cancelled():
            task.exception()
    if interruption:
        raise interruption


def _with_message_key(message: TokenizedMessage, error: StoreIncompatible) -> StoreIncompatible:
    """Return the error with the key of its message in the text."""
    error_with_key = StoreIncompatible(f"{message.key}: {error}")
    error_with_key.__cause__ = error
    return error_with_key
