"""Teaching many messages: a batch in three round trips, and the next one taken apart while Redis writes.

Rules: each lesson is an atomic step of its own, so an interruption leaves whole lessons, and the same may be
taught again. Its weight comes from counts that were read with its batch, with what the batch itself teaches before
it on top: what others teach meanwhile is missing, for ``BATCH_SIZE`` messages at most. A message that comes twice
is taught twice, one after the other. One whose ledger entry cannot be read is told, and hinders no other. Memory
holds two batches of tokens.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from nbstream.errors import CountsFull, NbstreamError, StoreIncompatible
from nbstream.filter.former_keys import under_ledger_keys
from nbstream.filter.lesson_plan import CountedCheck, PlannedLesson, TokenizedMessage
from nbstream.filter.results import Lesson, LessonOutcome
from nbstream.filter.scorer import MessageCounts
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.learn_script import LessonCommit
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.lesson_plan import LessonPlanner
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.lesson_source import LessonSource

BATCH_SIZE = 64

Batch: TypeAlias = "Mapping[str, TokenizedMessage]"
WithdrawnLabels: TypeAlias = "Mapping[str, str | StoreIncompatible]"


@dataclass(frozen=True, slots=True)
class BulkRequest:
    """What all lessons have in common: ``label`` None takes back.

    ``told`` is given each lesson, in order, or why there is none of a message.
    """

    label: str | None
    lesson_source: LessonSource
    report_result: Callable[[Lesson | StoreIncompatible], object]


@dataclass(frozen=True, slots=True)
class _BatchPlan:
    """What is to be done to each message of a batch, what is so already, or why not; ``full`` ends it early.

    ``withdrawn`` are the labels, by message, that were learned without people and are taken back.
    """

    lessons: tuple[tuple[TokenizedMessage, PlannedLesson | Lesson | StoreIncompatible], ...]
    withdrawn: WithdrawnLabels
    counts_full: CountsFull | None = None

    @property
    def replacements(self) -> list[LessonCommit]:
        """Those of the steps."""
        return [
            LessonCommit(taught.key, step.old_entry, step.new_entry, step.note)
            for taught, step in self.lessons
            if isinstance(step, PlannedLesson)
        ]


class BulkLearner:
    """Teaches in batches; ``learn_one`` teaches one message, where a batch is none or others were quicker."""

    def __init__(
        self,
        parts: FilterParts,
        scorer: Scorer,
        planner: LessonPlanner,
        learn_one: Callable[[TokenizedMessage, str | None, LessonSource], Awaitable[Lesson]],
    ) -> None:
        self._model = parts.model
        self._counts = parts.counts
        self._autolearn_layer = parts.autolearn_layer
        self._scorer = scorer
        self._planner = planner
        self._learn_one = learn_one

    async def learn_all(self, subjects: AsyncIterator[TokenizedMessage], course: BulkRequest) -> None:
        """Teach all, one after another as far as anybody can see. Raises ``StoreUnavailable`` and ``CountsFull``.

        What ``course.told`` was not given then was not learned, or may have been; all may be taught again.
        """
        writing: asyncio.Task[None] | None = None
        try:
            async with aclosing(_split_batches(subjects)) as batches:
                async for batch in batches:
                    stop_if_cancelled()
                    await _wait_for_commit(writing)
                    writing = asyncio.create_task(await self._prepare_batch(batch, course))
            await _wait_for_commit(writing)
        finally:
            if writing:  # what is on its way to Redis is told of, whatever ends the rest
                await asyncio.wait([writing])
                writing.exception()

    async def _prepare_batch(self, batch: Batch, course: BulkRequest) -> Coroutine[None, None, None]:
        """What is left to do of a batch once it is planned: it needs no processor of ours."""
        taught = list(batch.values())
        if len(taught) == 1:
            return self._learn_single(taught[0], course)
        return self._commit_batch(await self._plan_batch(taught, course), course)

    async def _learn_single(self, taught: TokenizedMessage, course: BulkRequest) -> None:
        try:
            lesson = await self._learn_one(taught, course.label, course.lesson_source)
        except StoreIncompatible as error:
            course.report_result(_with_message_key(taught, error))
        else:
            course.report_result(lesson)

    async def _plan_batch(self, taught: Sequence[TokenizedMessage], course: BulkRequest) -> _BatchPlan:
        taught = await under_ledger_keys(self._model, self._autolearn_layer, taught)
        withdrawn = await self._withdraw_autolearned(taught)
        entries = await self._model.entries([each.key for each in taught])
        near = await self._read_counts(taught, entries)
        lessons: list[tuple[TokenizedMessage, PlannedLesson | Lesson | StoreIncompatible]] = []
        for i, (each, entry) in enumerate(zip(taught, entries, strict=True)):
            gone = withdrawn.get(each.key)
            if isinstance(gone, StoreIncompatible):
                lessons.append((each, gone))
                continue
            if isinstance(entry, StoreIncompatible):
                lessons.append((each, entry))
                continue
            reading = near.message_counts(i)
            before = self._scorer.check(each.key, each.tokens, reading)
            if (entry.label if entry else None) == course.label:
                outcome = LessonOutcome.ALREADY if entry else LessonOutcome.UNKNOWN
                lessons.append((each, Lesson(outcome, course.label, before, before)))
                continue
            try:
                step = self._planner.plan(
                    each, course.label, CountedCheck(before, reading), entry, course.lesson_source
                )
            except CountsFull as full:
                return _BatchPlan(tuple(lessons), withdrawn, full)
            near.apply_lesson(i, step.counts_after)
            lessons.append((each, step))
        return _BatchPlan(tuple(lessons), withdrawn)

    async def _read_counts(
        self, taught: Sequence[TokenizedMessage], entries: Sequence[LedgerEntry | StoreIncompatible | None]
    ) -> _BatchCounts:
        known = [entry if isinstance(entry, LedgerEntry) else None for entry in entries]
        names = [self._scorer.count_names(each.tokens, entry) for each, entry in zip(taught, known, strict=True)]
        return _BatchCounts(
            names, await self._scorer.read_named_counts(tuple(dict.fromkeys(chain.from_iterable(names))))
        )

    async def _commit_batch(self, planned: _BatchPlan, course: BulkRequest) -> None:
        """Take the steps of a batch, and tell of its lessons."""
        answers = await self._model.commit_lessons(planned.replacements)
        if any(
            isinstance(answer, LedgerConflict) for answer in answers
        ):  # a lost reply, perhaps: it was made then
            await self._counts.wait_until_applied(await self._model.last_change())
        elif changes := [answer for answer in answers if isinstance(answer, bytes)]:
            await self._counts.wait_until_applied(changes[-1])
        failed: NbstreamError | None = planned.counts_full
        following = iter(answers)
        lessons = [
            (
                taught,
                await self._committed_lesson(taught, step, next(following), course)
                if isinstance(step, PlannedLesson)
                else step,
            )
            for taught, step in planned.lessons
        ]
        withdrawn = planned.withdrawn
        try:  # again, as of one that is taught alone
            withdrawn = {**withdrawn, **await self._withdraw_autolearned([taught for taught, _ in lessons])}
        except NbstreamError as error:
            failed = failed or error
        for taught, lesson in lessons:
            if isinstance(lesson, Lesson):
                label = withdrawn.get(taught.key)
                course.report_result(lesson.with_withdrawn_label(label) if isinstance(label, str) else lesson)
            elif isinstance(lesson, StoreIncompatible):
                course.report_result(_with_message_key(taught, lesson))
            else:
                failed = failed or lesson
        if failed:
            raise failed

    async def _committed_lesson(
        self,
        taught: TokenizedMessage,
        step: PlannedLesson,
        answer: bytes | LedgerConflict | NbstreamError,
        course: BulkRequest,
    ) -> Lesson | NbstreamError:
        if isinstance(answer, NbstreamError):
            return answer
        if isinstance(answer, LedgerConflict) and not _is_own_write(answer.entry, step):
            try:
                return await self._learn_one(taught, course.label, course.lesson_source)
            except NbstreamError as error:
                return error
        return Lesson(step.outcome, step.label, step.before, step.after)

    async def _withdraw_autolearned(self, taught: Sequence[TokenizedMessage]) -> WithdrawnLabels:
        """What a person says of a message replaces what was learned of it without people."""
        return (
            await self._autolearn_layer.withdraw_many([each.key for each in taught])
            if self._autolearn_layer
            else {}
        )


class _BatchCounts:
    """The counts that a batch needs, as they were read, with its own lessons on top; ``names`` by its messages."""

    def __init__(self, names: Sequence[tuple[bytes, ...]], read: MessageCounts) -> None:
        self._names = names
        self._counts = read
        self._totals = read.totals
        place = dict(zip(read.names, range(len(read.names)), strict=True)).__getitem__
        self._rows_by_message = [np.fromiter(map(place, some), np.intp, len(some)) for some in names]

    def message_counts(self, i: int) -> MessageCounts:
        """The counts of the names of message ``i``, now."""
        read = self._counts
        rows = read.rows[self._rows_by_message[i]]
        return MessageCounts(
            self._names[i], rows, self._totals, read.vocabulary_counts, read.growth, read.first_scores
        )

    def apply_lesson(self, i: int, then: MessageCounts) -> None:
        """What the lesson of message ``i`` makes of them."""
        self._counts.rows[self._rows_by_message[i]] = then.rows
        self._totals = then.totals


async def _split_batches(subjects: AsyncIterator[TokenizedMessage]) -> AsyncGenerator[Batch, None]:
    """The messages in order, by batches in which none is twice."""
    batch: dict[str, TokenizedMessage] = {}
    async for subject in subjects:
        if len(batch) == BATCH_SIZE or subject.key in batch:
            yield batch
            batch = {}
        batch[subject.key] = subject
    if batch:
        yield batch


async def _wait_for_commit(writing: asyncio.Task[None] | None) -> None:
    """Wait for it, without ending it when the wait is cancelled, and raise what it raised."""
    if writing:
        await asyncio.wait([writing])
        writing.result()


def _with_message_key(taught: TokenizedMessage, error: StoreIncompatible) -> StoreIncompatible:
    """The error with the message that it is about."""
    named = StoreIncompatible(f"{taught.key}: {error}")
    named.__cause__ = error
    return named


def _is_own_write(entry: LedgerEntry | None, step: PlannedLesson) -> bool:
    """Whether the entry is what the step was to write: its reply was lost, and it was made again."""
    return (entry.version if entry else None) == (step.new_entry.version if step.new_entry else None)
