"""Teach many messages in batches: ledger and counts are read once for each, and its lessons are written in parts.

While Redis writes a part, the next one is planned, and the messages of the next batch are read.

Rules:

- The lessons of a part that have the same labels before and after are one atomic step, or some: for lessons of
  several classes each token would be looked up in all of these. An interruption leaves whole lessons, and all may
  be taught again.
- The weight of a lesson comes from the counts that were read for its batch, plus what the batch itself teaches
  before it. What others teach meanwhile is missing for the rest of the batch.
- Each message has its own label. One that comes twice is taught twice, one lesson after the other.
- A label that a message has already changes nothing. Where the source insists, each message is taught alone.
- A message whose ledger entry cannot be read is reported, and the others are taught all the same.
- Memory holds the tokens of two batches, and ``MAX_KNOWN_NAMES`` counts.

Most tokens of a batch came in one of those before it. So their counts are not read again, but known: what was read
plus what was learned. Where the totals in Redis are others than the known ones, somebody else has taught, and all
are read again.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nbstream.errors import CountsFull, NbstreamError, StoreIncompatible
from nbstream.filter.lesson_plan import CountedCheck, PlannedLesson, TokenizedMessage
from nbstream.filter.message_counts import count_names
from nbstream.filter.results import Lesson, LessonOutcome
from nbstream.policy.lesson_source import Insistence
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.commit import CommitResult, is_own_entry
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.scripts import LessonBatch

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from nbstream.filter.lesson_plan import LessonPlanner
    from nbstream.filter.message_counts import MessageCounts
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.lesson_source import LessonSource


BATCH_SIZE = 256  # most of their tokens come in several of them; for other sizes see docs/experiments.md
MAX_KNOWN_NAMES = 1 << 18  # some 40 MB; when there are more, all are forgotten
_MESSAGES_A_TURN = 8  # of the event loop, which costs 20 µs: some milliseconds

LabelledTokens: TypeAlias = "tuple[TokenizedMessage, str | None]"
"""The tokens of a message, and the class that they are learned into; None takes the message back."""

Batch: TypeAlias = "Mapping[str, LabelledTokens]"
WithdrawnLabels: TypeAlias = "Mapping[str, str | StoreIncompatible]"


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


@dataclass(slots=True)
class _PartPlan:
    """For each message of a part its planned lesson, its lesson where nothing has to change, or its error.

    ``withdrawn`` are the autolearned labels that were taken back, by message key. ``commits`` are the changes of
    the planned lessons as the store takes them, by the labels before and after. ``counts_full`` is the error that
    ended the plan before the end of the batch.
    """

    withdrawn: WithdrawnLabels
    lessons: list[tuple[TokenizedMessage, PlannedLesson | Lesson | StoreIncompatible]] = field(
        default_factory=list
    )
    commits: defaultdict[tuple[str | None, str | None], LessonBatch] = field(
        default_factory=lambda: defaultdict(LessonBatch)
    )
    counts_full: CountsFull | None = None


class BulkLearner:
    """Teaches in batches.

    ``learn_one`` teaches one message: where a batch has only one, and where others changed a message meanwhile.
    """

    def __init__(
        self,
        parts: FilterParts,
        scorer: Scorer,
        planner: LessonPlanner,
        learn_one: Callable[[TokenizedMessage, str | None, LessonSource], Awaitable[Lesson]],
    ) -> None:
        self._model = parts.model
        self._counts = parts.counts
        self._known_counts = KnownCounts(scorer.read_counts)
        self._autolearn_layer = None if parts.parents else parts.autolearn_layer  # which is not an own model's
        self._scorer = scorer
        self._planner = planner
        self._learn_one = learn_one

    async def learn_all(self, messages: AsyncIterator[LabelledTokens], request: BulkRequest) -> None:
        """Teach all messages; the result is the same as if they were taught one after another.

        Raises ``StoreUnavailable`` and ``CountsFull``. A message that was not reported by then may have been
        learned or not; all messages may be taught again.
        """
        commit: asyncio.Task[None] | None = None
        try:
            async with (
                aclosing(_split_batches(messages, request.batch_size)) as batches,
                aclosing(_read_ahead(batches)) as batches_read,
            ):
                async for batch in batches_read:
                    stop_if_cancelled()
                    await _wait_for_commit(commit)  # before its counts are read
                    async with aclosing(self._prepare_batch(batch, request)) as parts:
                        async for part in parts:
                            await _wait_for_commit(commit)
                            commit = asyncio.create_task(part())
            await _wait_for_commit(commit)
        finally:
            if commit:  # what is on its way to Redis is reported, even if an error ends the rest
                await _end_commit(commit)

    async def _prepare_batch(
        self, batch: Batch, request: BulkRequest
    ) -> AsyncGenerator[Callable[[], Coroutine[None, None, None]], None]:
        """Plan a batch, and yield for each part the rest of the work, which mostly waits for Redis."""
        if len(batch) == 1:
            ((message, label),) = batch.values()
            yield partial(self._learn_single, message, label, request)
            return
        async with aclosing(self._plan_batch(batch, request)) as plans:
            async for plan in plans:
                yield partial(self._commit_part, plan, request)

    async def _learn_single(self, message: TokenizedMessage, label: str | None, request: BulkRequest) -> None:
        try:
            lesson = await self._learn_one(message, label, request.lesson_source)
        except StoreIncompatible as error:
            request.report_result(_with_message_key(message, error))
        else:
            request.report_result(lesson.in_words(message.tokens, message.words))

    async def _plan_batch(self, batch: Batch, request: BulkRequest) -> AsyncGenerator[_PartPlan, None]:
        messages = [message for message, _ in batch.values()]
        withdrawn = await self._withdraw_autolearned(messages)
        entries = await self._model.entries([message.key for message in messages])
        known_counts = self._known_counts
        await known_counts.read(
            [
                count_names(message.tokens, entry if isinstance(entry, LedgerEntry) else None)
                for message, entry in zip(messages, entries, strict=True)
            ]
        )
        part = _PartPlan(withdrawn)
        for i, ((message, class_name), entry) in enumerate(zip(batch.values(), entries, strict=True)):
            if i % _MESSAGES_A_TURN == 0:
                await asyncio.sleep(0)  # the part that is being written can go on
            withdrawn_label = withdrawn.get(message.key)
            if isinstance(withdrawn_label, StoreIncompatible):
                part.lessons.append((message, withdrawn_label))
                continue
            if isinstance(entry, StoreIncompatible):
                part.lessons.append((message, entry))
                continue
            counts = known_counts.message_counts(i)
            check = self._scorer.check(message.key, message.tokens, counts)
            if (entry.class_name if entry else None) == class_name:
                outcome = LessonOutcome.ALREADY if entry else LessonOutcome.UNKNOWN
                label, kind = (entry.label, entry.kind) if entry else (None, "")
                part.lessons.append((message, Lesson(outcome, label, check, check, kind=kind)))
                continue
            before = CountedCheck(check, counts)
            try:
                planned = self._planner.plan(message, class_name, before, entry, request.lesson_source)
            except CountsFull as error:
                part.counts_full = error
                break
            known_counts.apply_lesson(i, planned.counts_after)
            if not part.commits[planned.labels].has_room(planned):
                yield part
                part = _PartPlan(withdrawn)
            part.commits[planned.labels].add(planned)
            part.lessons.append((message, planned))
        yield part

    async def _commit_part(self, plan: _PartPlan, request: BulkRequest) -> None:
        """Write the planned lessons of a part, and report all of its lessons."""
        answers: dict[str, CommitResult] = {}
        for batch in plan.commits.values():
            answers |= await self._commit(batch)
        failure: NbstreamError | None = plan.counts_full
        lessons = [
            (
                message,
                await self._committed_lesson(message, planned, answers[message.key], request)
                if isinstance(planned, PlannedLesson)
                else planned,
            )
            for message, planned in plan.lessons
        ]
        withdrawn = plan.withdrawn
        try:  # again, as for a message that is taught alone
            withdrawn = {**withdrawn, **await self._withdraw_autolearned([message for message, _ in lessons])}
        except NbstreamError as error:
            failure = failure or error
        for message, lesson in lessons:
            if isinstance(lesson, Lesson):
                label = withdrawn.get(message.key)
                request.report_result(lesson.with_withdrawn_label(label) if isinstance(label, str) else lesson)
            elif isinstance(lesson, StoreIncompatible):
                request.report_result(_with_message_key(message, lesson))
            else:
                failure = failure or lesson
        if failure:
            raise failure

    async def _commit(self, batch: LessonBatch) -> Mapping[str, CommitResult]:
        """Write the lessons of a batch; return by message key what became of them, once the counts show it."""
        answers = await self._model.commit_lessons(batch)
        if any(isinstance(answer, LedgerConflict) for answer in answers):
            # Perhaps a reply was lost and the write was repeated: then its change is one of those up to the last.
            await self._counts.wait_until_applied(await self._model.last_change())
        elif changes := [answer for answer in answers if isinstance(answer, bytes)]:
            await self._counts.wait_until_applied(changes[-1])
        return {lesson.message_key: answer for lesson, answer in zip(batch.lessons, answers, strict=True)}

    async def _committed_lesson(
        self,
        message: TokenizedMessage,
        planned: PlannedLesson,
        answer: CommitResult,
        request: BulkRequest,
    ) -> Lesson | NbstreamError:
        if isinstance(answer, NbstreamError):
            return answer
        if isinstance(answer, LedgerConflict) and not is_own_entry(planned, answer.entry):
            try:
                class_name = planned.new.class_name if planned.new else None
                return await self._learn_one(message, class_name, request.lesson_source)
            except NbstreamError as error:
                return error
        return planned.result(planned.after)

    async def _withdraw_autolearned(self, messages: Sequence[TokenizedMessage]) -> WithdrawnLabels:
        """Take back what was autolearned of the messages: a person's label replaces it."""
        if self._autolearn_layer is None:
            return {}
        return await self._autolearn_layer.withdraw_many([message.key for message in messages])


async def _split_batches(messages: AsyncIterator[LabelledTokens], batch_size: int) -> AsyncGenerator[Batch, None]:
    """Yield the messages in order, in batches that have no message twice."""
    batch: dict[str, LabelledTokens] = {}
    async for message, label in messages:
        if len(batch) == batch_size or message.key in batch:
            yield batch
            batch = {}
        batch[message.key] = message, label
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
        await _cancel(following)


async def _wait_for_commit(commit: asyncio.Task[None] | None) -> None:
    """Wait for the task and raise what it raised. If the wait is cancelled, the task goes on."""
    if commit:
        await asyncio.wait([commit])
        commit.result()


async def _end_commit(commit: asyncio.Task[None]) -> None:
    """Wait for the task, whatever becomes of it. If the wait is cancelled, so is the task: nobody else ends it."""
    try:
        await asyncio.wait([commit])
    finally:
        await _cancel(commit)


async def _cancel(task: asyncio.Task[Any]) -> None:
    """Cancel the task unless it has ended, and wait for its end. A cancelled wait cancels the task once more."""
    interruption: asyncio.CancelledError | None = None
    while not task.done():  # more than once: see store.cancellation.stop_if_cancelled
        task.cancel()
        try:
            await asyncio.wait([task], timeout=1)
        except asyncio.CancelledError as error:
            interruption = error
    if not task.cancelled():
        task.exception()
    if interruption:
        raise interruption


def _with_message_key(message: TokenizedMessage, error: StoreIncompatible) -> StoreIncompatible:
    """Return the error with the key of its message in the text."""
    error_with_key = StoreIncompatible(f"{message.key}: {error}")
    error_with_key.__cause__ = error
    return error_with_key


class KnownCounts:
    """The counts of a batch, and those that were read for the batches before it, plus what they have taught.

    ``read_counts`` reads the counts of some names on all levels.
    """

    def __init__(self, read_counts: Callable[[tuple[bytes, ...]], Awaitable[MessageCounts]]) -> None:
        self._read_counts = read_counts
        self._names: Sequence[tuple[bytes, ...]] = ()
        self._rows_by_message: Sequence[NDArray[np.intp]] = ()
        self._forget()

    def _forget(self) -> None:
        self._row_numbers = defaultdict[bytes, int](count().__next__)  # each new name gets the next number
        self._counts: MessageCounts | None = None

    async def read(self, names: Sequence[tuple[bytes, ...]]) -> None:
        """Read what is not known of the counts of a batch; ``names`` are the names of counts of each message."""
        self._names = names
        if len(self._row_numbers) > MAX_KNOWN_NAMES:
            self._forget()
        counts = await self._read_unknown()
        if self._counts and _all_totals(counts) != _all_totals(self._counts):
            self._forget()
            counts = await self._read_unknown()
        self._counts = _join_rows(self._counts, counts) if self._counts else counts

    async def _read_unknown(self) -> MessageCounts:
        known = len(self._row_numbers)
        number = self._row_numbers.__getitem__
        self._rows_by_message = [np.fromiter(map(number, names), np.intp, len(names)) for names in self._names]
        return await self._read_counts(tuple(islice(self._row_numbers, known, None)))

    def message_counts(self, i: int) -> MessageCounts:
        """Return the counts of message ``i`` of the batch, with the lessons so far."""
        assert self._counts
        return _rows_of(self._counts, self._names[i], self._rows_by_message[i])

    def apply_lesson(self, i: int, counts_after: MessageCounts) -> None:
        """Put the counts after the lesson of message ``i`` in the place of those before it."""
        assert self._counts
        self._counts.rows[self._rows_by_message[i]] = counts_after.rows
        self._counts = replace(self._counts, sums=counts_after.sums, totals=counts_after.totals)


def _all_totals(counts: MessageCounts) -> tuple[object, ...]:
    """Return the totals of all levels: whoever teaches changes some of them."""
    layer = counts.autolearned
    return counts.totals, layer and layer.totals, *map(_all_totals, counts.parents)


def _join_rows(known: MessageCounts, counts: MessageCounts) -> MessageCounts:
    """Return ``counts`` with the rows of ``known`` before its own, on all levels."""
    rows, layer = np.concatenate((known.rows, counts.rows)), counts.autolearned
    if layer and known.autolearned:
        layer = replace(layer, rows=np.concatenate((known.autolearned.rows, layer.rows)))
    parents = tuple(map(_join_rows, known.parents, counts.parents))
    return replace(counts, rows=rows, autolearned=layer, parents=parents)


def _rows_of(counts: MessageCounts, names: tuple[bytes, ...], row_numbers: NDArray[np.intp]) -> MessageCounts:
    """Return the counts of ``names``, which are in the rows of these numbers, on all levels."""
    layer = counts.autolearned
    return replace(
        counts,
        names=names,
        rows=counts.rows[row_numbers],
        autolearned=replace(layer, rows=layer.rows[row_numbers]) if layer else None,
        parents=tuple([_rows_of(parent, names, row_numbers) for parent in counts.parents]),
    )
