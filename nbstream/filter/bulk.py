"""Teaching many messages: a batch in three round trips, and the next one taken apart while Redis writes.

Rules: each lesson is an atomic step of its own, so an interruption leaves whole lessons, and the same may be
taught again. Its weight comes from counts that were read with its batch, with what the batch itself teaches before
it on top: what others teach meanwhile is missing, for ``BATCH`` messages at most. A message that comes twice is
taught twice, one after the other. One whose ledger entry cannot be read is told, and hinders no other. Memory
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
from nbstream.filter.lesson_plan import Step, Taught
from nbstream.filter.results import Lesson, Outcome
from nbstream.filter.scorer import Reading
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.learn_script import Replacement
from nbstream.store.model.ledger import Entry, Held

if TYPE_CHECKING:
    from nbstream.filter.lesson_plan import Steps
    from nbstream.filter.protocols import CountSource, GivingWay, Teachable
    from nbstream.filter.scorer import Scorer

BATCH = 64

By: TypeAlias = "tuple[str, str]"
"""The door that lessons come through, and who comes."""

Batch: TypeAlias = "Mapping[str, Taught]"
Withdrawn: TypeAlias = "Mapping[str, str | StoreIncompatible]"


@dataclass(frozen=True, slots=True)
class Curriculum:
    """What all lessons have in common: ``label`` None takes back.

    ``told`` is given each lesson, in order, or why there is none of a message.
    """

    label: str | None
    by: By
    told: Callable[[Lesson | StoreIncompatible], object]


@dataclass(frozen=True, slots=True)
class _Planned:
    """What is to be done to each message of a batch, what is so already, or why not; ``full`` ends it early.

    ``withdrawn`` are the labels, by message, that were learned without people and are taken back.
    """

    lessons: tuple[tuple[Taught, Step | Lesson | StoreIncompatible], ...]
    withdrawn: Withdrawn
    full: CountsFull | None = None

    @property
    def replacements(self) -> list[Replacement]:
        """Those of the steps."""
        return [
            Replacement(taught.key, step.known, step.new, step.note)
            for taught, step in self.lessons
            if isinstance(step, Step)
        ]


class Bulk:
    """Teaches in batches; ``alone`` teaches one message, where a batch is none or others were quicker."""

    def __init__(
        self,
        model: Teachable,
        counts: CountSource,
        scoring: tuple[Scorer, Steps],
        auto: GivingWay | None,
        alone: Callable[[Taught, str | None, By], Awaitable[Lesson]],
    ) -> None:
        self._model = model
        self._counts = counts
        self._scorer, self._steps = scoring
        self._auto = auto
        self._alone = alone

    async def teach(self, subjects: AsyncIterator[Taught], course: Curriculum) -> None:
        """Teach all, one after another as far as anybody can see. Raises ``StoreUnavailable`` and ``CountsFull``.

        What ``course.told`` was not given then was not learned, or may have been; all may be taught again.
        """
        writing: asyncio.Task[None] | None = None
        try:
            async with aclosing(_batches(subjects)) as batches:
                async for batch in batches:
                    stop_if_cancelled()
                    await _ended(writing)
                    writing = asyncio.create_task(await self._begun(batch, course))
            await _ended(writing)
        finally:
            if writing:  # what is on its way to Redis is told of, whatever ends the rest
                await asyncio.wait([writing])
                writing.exception()

    async def _begun(self, batch: Batch, course: Curriculum) -> Coroutine[None, None, None]:
        """What is left to do of a batch once it is planned: it needs no processor of ours."""
        taught = list(batch.values())
        if len(taught) == 1:
            return self._teach_alone(taught[0], course)
        return self._write(await self._plan(taught, course), course)

    async def _teach_alone(self, taught: Taught, course: Curriculum) -> None:
        try:
            lesson = await self._alone(taught, course.label, course.by)
        except StoreIncompatible as error:
            course.told(_of(taught, error))
        else:
            course.told(lesson)

    async def _plan(self, taught: Sequence[Taught], course: Curriculum) -> _Planned:
        taught = await under_ledger_keys(self._model, self._auto, taught)
        withdrawn = await self._withdraw(taught)
        entries = await self._model.entries([each.key for each in taught])
        near = await self._read(taught, entries)
        lessons: list[tuple[Taught, Step | Lesson | StoreIncompatible]] = []
        for i, (each, entry) in enumerate(zip(taught, entries, strict=True)):
            gone = withdrawn.get(each.key)
            if isinstance(gone, StoreIncompatible):
                lessons.append((each, gone))
                continue
            if isinstance(entry, StoreIncompatible):
                lessons.append((each, entry))
                continue
            reading = near.reading(i)
            before = self._scorer.check(each.key, each.tokens, reading)
            if (entry.label if entry else None) == course.label:
                outcome = Outcome.ALREADY if entry else Outcome.UNKNOWN
                lessons.append((each, Lesson(outcome, course.label, before, before)))
                continue
            try:
                step = self._steps.plan(each, course.label, (before, reading), entry, course.by)
            except CountsFull as full:
                return _Planned(tuple(lessons), withdrawn, full)
            near.put(i, step.then)
            lessons.append((each, step))
        return _Planned(tuple(lessons), withdrawn)

    async def _read(self, taught: Sequence[Taught], entries: Sequence[Entry | StoreIncompatible | None]) -> _Near:
        known = [entry if isinstance(entry, Entry) else None for entry in entries]
        names = [self._scorer.names(each.tokens, entry) for each, entry in zip(taught, known, strict=True)]
        return _Near(names, await self._scorer.read_names(tuple(dict.fromkeys(chain.from_iterable(names)))))

    async def _write(self, planned: _Planned, course: Curriculum) -> None:
        """Take the steps of a batch, and tell of its lessons."""
        answers = await self._model.replace_many(planned.replacements)
        if any(isinstance(answer, Held) for answer in answers):  # a lost reply, perhaps: it was made then
            await self._counts.applied(await self._model.last_change())
        elif changes := [answer for answer in answers if isinstance(answer, bytes)]:
            await self._counts.applied(changes[-1])
        failed: NbstreamError | None = planned.full
        following = iter(answers)
        lessons = [
            (taught, await self._made(taught, step, next(following), course) if isinstance(step, Step) else step)
            for taught, step in planned.lessons
        ]
        withdrawn = planned.withdrawn
        try:  # again, as of one that is taught alone
            withdrawn = {**withdrawn, **await self._withdraw([taught for taught, _ in lessons])}
        except NbstreamError as error:
            failed = failed or error
        for taught, lesson in lessons:
            if isinstance(lesson, Lesson):
                label = withdrawn.get(taught.key)
                course.told(lesson.withdrawing(label) if isinstance(label, str) else lesson)
            elif isinstance(lesson, StoreIncompatible):
                course.told(_of(taught, lesson))
            else:
                failed = failed or lesson
        if failed:
            raise failed

    async def _made(
        self, taught: Taught, step: Step, answer: bytes | Held | NbstreamError, course: Curriculum
    ) -> Lesson | NbstreamError:
        if isinstance(answer, NbstreamError):
            return answer
        if isinstance(answer, Held) and not _is_ours(answer.entry, step):
            try:
                return await self._alone(taught, course.label, course.by)
            except NbstreamError as error:
                return error
        return Lesson(step.outcome, step.label, step.before, step.after)

    async def _withdraw(self, taught: Sequence[Taught]) -> Withdrawn:
        """What a person says of a message replaces what was learned of it without people."""
        return await self._auto.withdraw_many([each.key for each in taught]) if self._auto else {}


class _Near:
    """The counts that a batch needs, as they were read, with its own lessons on top; ``names`` by its messages."""

    def __init__(self, names: Sequence[tuple[bytes, ...]], read: Reading) -> None:
        self._names = names
        self._read = read
        self._totals = read.totals
        place = dict(zip(read.names, range(len(read.names)), strict=True)).__getitem__
        self._places = [np.fromiter(map(place, some), np.intp, len(some)) for some in names]

    def reading(self, i: int) -> Reading:
        """The counts of the names of message ``i``, now."""
        read = self._read
        rows = read.rows[self._places[i]]
        return Reading(self._names[i], rows, self._totals, read.vocabulary, read.growth, read.first_scores)

    def put(self, i: int, then: Reading) -> None:
        """What the lesson of message ``i`` makes of them."""
        self._read.rows[self._places[i]] = then.rows
        self._totals = then.totals


async def _batches(subjects: AsyncIterator[Taught]) -> AsyncGenerator[Batch, None]:
    """The messages in order, by batches in which none is twice."""
    batch: dict[str, Taught] = {}
    async for subject in subjects:
        if len(batch) == BATCH or subject.key in batch:
            yield batch
            batch = {}
        batch[subject.key] = subject
    if batch:
        yield batch


async def _ended(writing: asyncio.Task[None] | None) -> None:
    """Wait for it, without ending it when the wait is cancelled, and raise what it raised."""
    if writing:
        await asyncio.wait([writing])
        writing.result()


def _of(taught: Taught, error: StoreIncompatible) -> StoreIncompatible:
    """The error with the message that it is about."""
    named = StoreIncompatible(f"{taught.key}: {error}")
    named.__cause__ = error
    return named


def _is_ours(entry: Entry | None, step: Step) -> bool:
    """Whether the entry is what the step was to write: its reply was lost, and it was made again."""
    return (entry.version if entry else None) == (step.new.version if step.new else None)
