"""The one way to learn: lessons that wait at the same moment are a group, which is planned and committed together.

Rules:

- Nothing waits for a group to fill. Lessons are planned while Redis has those before them, and are committed when
  it has made these, or when a step is full: what comes by then joins it. Bulk is many lessons at once.
- A lesson is planned on the counts that were read for its group, plus what was planned before it. What others
  teach meanwhile is missing there. Where a lesson was planned that is not made, since it conflicts or its step
  fails, no other lesson is planned until all are made that were planned before, and all counts are read again.
- Lessons are committed in steps, each of which Redis carries out as a whole. The lessons of a step have the same
  columns before and after: for lessons of several columns each token would be looked up in all of these. So one
  that is the only one of its columns has a step to itself, which waits while others come, but not for long.
- Most messages that are learned are new. Therefore the ledger is not looked at before a lesson that comes alone:
  the commit says what it has. Those that come together are looked up together. A lesson that conflicts is planned
  again in the next group, twice at most, and then by itself.
- A second lesson of a message waits until the first one is made, and with it all that come after it, unless it
  says the same: then it changes nothing.
- Each lesson has its own answer. Whoever stops waiting takes the lesson along, unless its group has begun: that is
  committed as a whole all the same.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from nbstream.bayes.counts import ChangePosition
from nbstream.errors import CountsFull, NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.filter.lesson_plan import Feedback, LessonPlanner, PlannedLesson
from nbstream.filter.message_counts import KnownCounts, count_names
from nbstream.filter.results import FeedbackOutcome, FeedbackResult
from nbstream.store.cancellation import cancel_and_wait
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.scripts import LessonBatch

if TYPE_CHECKING:
    from nbstream.filter.message_counts import KnownRows
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.scorer import Scorer

GROUP_SIZE = 256  # most of the tokens of a mailbox come in several of them; 512 are no faster
_MAX_WAITING = 1024  # lessons: some 50 MB of tokens
_ANSWER_SECONDS = 15.0  # a group alone may take two commands of 5 seconds
_PLANNED_MEANWHILE = 512  # lessons at most, while a step that is not full waits: a second
_STEPS_AT_ONCE = 3  # of two classes: while some are packed or answered, Redis has another one to do
_MAX_NAMES_KNOWN = 1 << 14  # of lessons that come one by one: each group copies what is known, 16 bytes a name
_GROUP_TRIES = 2  # that end in a conflict
_MAX_CONFLICTS = 20  # of one lesson, each with somebody else who was faster

ReportResult: TypeAlias = "Callable[[FeedbackResult | StoreIncompatible], object]"

_Steps: TypeAlias = "defaultdict[tuple[str | None, str | None], LessonBatch]"
"""The lessons that are planned, by their columns before and after."""


@dataclass(slots=True, eq=False)
class WaitingFeedback:
    """A lesson that somebody waits for; ``done`` is where its result goes.

    ``is_one_of_many``: it came with others. ``conflicts`` is how often somebody else was faster, and ``conflict``
    what the ledger had the last time. ``has_reinforced`` says that the lesson was to reinforce a label then.
    """

    feedback: Feedback
    done: asyncio.Future[FeedbackResult]
    is_one_of_many: bool = False
    conflicts: int = 0
    conflict: LedgerConflict | None = None
    has_reinforced: bool = False

    @property
    def key(self) -> str:
        """The key of the message."""
        return self.feedback.message.key

    @property
    def is_alone(self) -> bool:
        """Whether the lesson is a group by itself, since others change its message all the time."""
        return self.conflicts > _GROUP_TRIES

    @property
    def needs_entry(self) -> bool:
        """Whether the lesson cannot be planned as that of a new message."""
        _, class_name, source = self.feedback
        is_of_known = class_name is None or source.reinforced_version is not None
        return is_of_known or self.is_one_of_many or self.conflicts > 0


class LessonGroups:
    """Teaches the lessons of all callers, in a task that is in ``lesson_groups`` of the parts until it ends."""

    def __init__(self, parts: FilterParts, scorer: Scorer) -> None:
        self._model = parts.model
        self._counts = parts.counts
        self._user_labels = parts.user_labels if parts.parents else None
        self._tasks = parts.lesson_groups
        self._scorer = scorer
        self._planner = LessonPlanner(scorer, parts.clock, parts.own_model)
        self._make_known_counts = partial(KnownCounts, scorer.read_counts, parts.make_name_numbers)
        self._make_batch = partial(LessonBatch, make_numbers=parts.make_name_numbers)
        self._known_counts = self._make_known_counts()
        self._waiting: deque[WaitingFeedback] = deque()
        self._begun: dict[str, WaitingFeedback] = {}
        """The lessons of the groups that have begun, by message key, until they are answered."""
        self._planned: _Steps = defaultdict(self._make_batch)
        """The steps that have not begun."""
        self._planned_since = 0
        """How many lessons were planned since all planned steps began."""
        self._has_unmade = False
        """Whether the known counts have a lesson that Redis has not made, and will not make as it was planned."""
        self._steps: set[asyncio.Task[None]] = set()
        self._progress = asyncio.Event()
        """Set when a lesson comes, and when a step has ended."""
        self._learning: asyncio.Task[None] | None = None

    async def learn(self, feedback: Feedback) -> FeedbackResult:
        """Teach a lesson; return what became of it when Redis has it and the counts show it.

        Raises ``StoreUnavailable``, also where too many lessons wait, and ``CountsFull``: nothing is half done
        then, and the lesson may be taught again.
        """
        if len(self._waiting) >= _MAX_WAITING:
            raise StoreUnavailable("too many lessons wait for Redis")
        (lesson,) = self.add([feedback])
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await lesson.done
        except TimeoutError as error:
            raise StoreUnavailable("Redis is too slow for the lessons that wait") from error

    def add(self, feedbacks: Sequence[Feedback]) -> Sequence[WaitingFeedback]:
        """Let lessons wait for their groups; return them in their order."""
        loop, are_many = asyncio.get_running_loop(), len(feedbacks) > 1
        added = [WaitingFeedback(feedback, loop.create_future(), are_many) for feedback in feedbacks]
        self._waiting += added
        self._progress.set()
        if added and self._learning is None:
            self._learning = asyncio.create_task(self._learn_waiting())
            self._tasks.add(self._learning)
            self._learning.add_done_callback(self._tasks.discard)
        return added

    def has_begun(self, lesson: WaitingFeedback) -> bool:
        """Return whether the lesson is made, or its group has begun."""
        return lesson.done.done() or self._begun.get(lesson.key) is lesson

    async def _learn_waiting(self) -> None:
        """Teach until no lesson waits. What waits when this task is cancelled, as at the end, is refused."""
        try:
            while self._waiting or self._planned or self._steps:
                has_to_wait = self._waiting and self._waiting[0].is_alone and (self._planned or self._steps)
                if group := () if has_to_wait else self._next_group():
                    await self._learn_group(group)
                    await asyncio.sleep(0)  # what has come meanwhile joins the same steps
                elif self._planned and not self._steps:
                    await self._begin_planned()
                elif self._steps:
                    await self._wait_for_progress()
        finally:
            self._learning = None
            for step in tuple(self._steps):
                await cancel_and_wait(step)
            self._known_counts = self._make_known_counts()
            self._planned.clear()
            left = [*self._begun.values(), *self._waiting]
            self._waiting.clear()
            for lesson in left:
                self._fail(lesson, StoreUnavailable("the lesson was interrupted, and may be repeated"))

    def _next_group(self) -> Sequence[WaitingFeedback]:
        """Take the lessons that wait, up to one that has to come after another one of its message."""
        group: list[WaitingFeedback] = []
        repeats: list[WaitingFeedback] = []
        while self._waiting and len(group) < GROUP_SIZE:
            lesson = self._waiting[0]
            former = self._begun.get(lesson.key)
            is_other = former is not None and former.feedback.class_name != lesson.feedback.class_name
            if is_other or (group and (lesson.is_alone or group[-1].is_alone)):
                break
            self._waiting.popleft()
            if former:
                repeats.append(lesson)
            elif not lesson.done.done():  # else nobody waits any more
                group.append(lesson)
                self._begun[lesson.key] = lesson
        self._waiting.extendleft(reversed(repeats))
        return group

    async def _learn_group(self, group: Sequence[WaitingFeedback]) -> None:
        """Plan the lessons of a group one after another, and begin to commit the steps that are full."""
        try:
            to_plan = await self._read(group)
        except Exception as error:  # noqa: BLE001 - it is the answer to those who wait
            for lesson in group:
                self._fail(lesson, error)
            return
        unchanged: list[tuple[WaitingFeedback, FeedbackResult]] = []
        for i, (lesson, entry, rows) in enumerate(to_plan):
            if i:
                await asyncio.sleep(0)  # other work goes on: a plan takes as long as a check
            try:
                counts = self._known_counts.message_counts(rows)
                planned = self._planner.plan(
                    lesson.feedback, entry, counts, may_reinforce=not lesson.has_reinforced
                )
            except Exception as error:  # noqa: BLE001 - it is the answer to the one who waits
                if isinstance(error, CountsFull) and not lesson.needs_entry:
                    self._plan_again(lesson, None)  # an earlier attempt may have made the lesson
                else:
                    self._fail(lesson, error)
                continue
            if isinstance(planned, FeedbackResult):
                unchanged.append((lesson, planned))
                continue
            if not self._planned[planned.columns].has_room(planned):
                await self._begin_to_commit([self._planned.pop(planned.columns)])
            self._known_counts.apply_lesson(rows, planned.counts_after)
            self._planned[planned.columns].add(planned)
            self._planned_since += 1
        if unchanged or group[0].is_alone or self._planned_since >= _PLANNED_MEANWHILE:
            await self._begin_planned()
        await self._answer_unchanged(unchanged)

    async def _read(
        self, group: Sequence[WaitingFeedback]
    ) -> Sequence[tuple[WaitingFeedback, LedgerEntry | None, KnownRows]]:
        """Read what is needed to plan the lessons: their ledger entries, and the rows of their counts.

        A lesson whose ledger entry cannot be read is answered, and left out. Raises ``StoreUnavailable``.
        """
        await self._note_labels(group)
        unknown = [one for one in group if one.needs_entry and one.conflict is None]
        found = await self._model.entries([lesson.key for lesson in unknown]) if unknown else ()
        by_key = {lesson.key: entry for lesson, entry in zip(unknown, found, strict=True)}
        entries: list[tuple[WaitingFeedback, LedgerEntry | None]] = []
        for lesson in group:
            entry = lesson.conflict.entry if lesson.conflict else by_key.get(lesson.key)
            if isinstance(entry, StoreIncompatible):
                self._fail(lesson, entry)
            else:
                entries.append((lesson, entry))
        if not entries:
            return ()
        # A repeat after a lost reply finds its entry: only with its change it is seen what the check says by now.
        said = [(one.feedback.class_name, entry) for one, entry in entries if entry]
        if changes := [entry.change for class_name, entry in said if entry.column == class_name]:
            await self._counts.wait_until_applied(max(changes, key=ChangePosition.of))
        is_bulk = group[0].is_one_of_many  # of many lessons most tokens are known already
        are_many_known = len(self._known_counts) > _MAX_NAMES_KNOWN and not is_bulk
        if self._scorer.has_budgets or are_many_known or self._has_unmade:
            await self._end_steps()
        if self._has_unmade:
            self._known_counts, self._has_unmade = self._make_known_counts(), False
        names, rows = [count_names(one.feedback.message.tokens, entry) for one, entry in entries], None
        if self._planned or self._steps:
            rows = await self._known_counts.read_ahead(names)
        elif not is_bulk:
            self._known_counts = self._make_known_counts()
        if rows is None:
            await self._end_steps()
            rows = await self._known_counts.read(names)
        return [(*lesson, of_one) for lesson, of_one in zip(entries, rows, strict=True)]

    async def _note_labels(self, group: Sequence[WaitingFeedback]) -> None:
        """Note which messages a user labels in an own model: they are no mail that nobody has labelled."""
        for lesson in group if self._user_labels else ():
            if self._user_labels and lesson.feedback.class_name is not None:
                await self._user_labels.add(lesson.key)  # before the lesson: a repeat may change nothing

    async def _begin_planned(self) -> None:
        planned, self._planned, self._planned_since = self._planned, defaultdict(self._make_batch), 0
        await self._begin_to_commit(planned.values())

    async def _begin_to_commit(self, steps: Iterable[LessonBatch]) -> None:
        self._known_counts.end_step()
        for batch in steps:
            await self._wait_for_steps(left=_STEPS_AT_ONCE - 1)
            step = asyncio.create_task(self._commit(batch))
            self._steps.add(step)
            step.add_done_callback(self._end_step)

    def _end_step(self, step: asyncio.Task[None]) -> None:
        self._steps.discard(step)
        self._progress.set()

    async def _end_steps(self) -> None:
        """Return when Redis has made all that is planned."""
        await self._begin_planned()
        await self._wait_for_steps(left=0)

    async def _wait_for_steps(self, left: int) -> None:
        """Return when at most so many steps are on their way."""
        while len(self._steps) > left:
            await self._wait_for_progress()

    async def _wait_for_progress(self) -> None:
        self._progress.clear()
        await self._progress.wait()

    async def _commit(self, batch: LessonBatch) -> None:
        """Commit the lessons of a step, and answer them once the counts show it."""
        planned = [lesson for lesson in batch.lessons if isinstance(lesson, PlannedLesson)]
        lessons = [self._begun[one.message_key] for one in planned]
        try:
            answers = await self._model.commit_lessons(batch)
            if changes := [answer for answer in answers if isinstance(answer, bytes)]:
                await self._counts.wait_until_applied(max(changes, key=ChangePosition.of))
            prequential_scores = await self._scorer.prequential_scores()
            for lesson, one, answer in zip(lessons, planned, answers, strict=True):
                self._has_unmade |= not isinstance(answer, bytes)
                if isinstance(answer, Exception):
                    self._fail(lesson, answer)
                elif isinstance(answer, LedgerConflict):
                    lesson.has_reinforced |= one.outcome is FeedbackOutcome.REINFORCED
                    self._plan_again(lesson, answer)
                else:
                    after = self._scorer.decide_again(one.after, prequential_scores)
                    self._answer(lesson, self._planner.result(one, after, lesson.feedback.source))
        except Exception as error:  # noqa: BLE001 - it is the answer to those who wait
            self._has_unmade = True
            for lesson in lessons:
                self._fail(lesson, error)

    async def _answer_unchanged(self, lessons: Sequence[tuple[WaitingFeedback, FeedbackResult]]) -> None:
        """Answer lessons that change nothing: perhaps because an earlier attempt made them."""
        try:
            if lessons:
                await self._model.confirm()
        except StoreUnavailable as error:
            for lesson, _ in lessons:
                self._fail(lesson, error)
        else:
            for lesson, result in lessons:
                self._answer(lesson, result)

    def _plan_again(self, lesson: WaitingFeedback, conflict: LedgerConflict | None) -> None:
        lesson.conflicts, lesson.conflict = lesson.conflicts + 1, conflict
        if lesson.conflicts < _MAX_CONFLICTS:
            del self._begun[lesson.key]
            self._waiting.appendleft(lesson)
        else:
            error = StoreUnavailable(f"message {lesson.key} is being changed by others all the time")
            self._fail(lesson, error)

    def _answer(self, lesson: WaitingFeedback, result: FeedbackResult) -> None:
        self._begun.pop(lesson.key, None)
        if not lesson.done.done():  # else nobody waits any more
            lesson.done.set_result(result)

    def _fail(self, lesson: WaitingFeedback, error: Exception) -> None:
        self._begun.pop(lesson.key, None)
        if not lesson.done.done():
            lesson.done.set_exception(error)


async def learn_all(groups: LessonGroups, feedbacks: AsyncIterator[Feedback], report_result: ReportResult) -> None:
    """Teach many lessons; the result is the same as if they were taught one after another.

    While one group of them is taught, the next one waits, and the messages of a third come: memory holds the
    tokens of four groups.

    ``report_result`` is called with each lesson in order, or with the error where the ledger entry of a message
    cannot be read. Raises what ``LessonGroups.learn`` raises, and nothing is reported after a lesson that failed,
    although it may be made: whoever counts the reports knows by them how far the messages are learned. What is on
    its way when this is cancelled, or when ``feedbacks`` fail, is made and reported.
    """
    pending: deque[WaitingFeedback] = deque()
    async with aclosing(_split(feedbacks)) as portions:

        async def read_next() -> Sequence[Feedback] | None:
            return await anext(portions, None)

        reading: asyncio.Task[Sequence[Feedback] | None] | None = asyncio.create_task(read_next())
        try:
            while reading or pending:
                awaited: list[asyncio.Future[Any]] = [pending[0].done] if pending else []
                if reading and len(pending) <= GROUP_SIZE:
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
        if len(portion) == GROUP_SIZE:
            yield portion
            portion = []
    if portion:
        yield portion


def _report_done(pending: deque[WaitingFeedback], report_result: ReportResult) -> None:
    """Report the first lessons that are done, and raise the error of one that failed."""
    while pending and pending[0].done.done():
        message = pending[0].feedback.message
        try:
            result: FeedbackResult | StoreIncompatible = pending[0].done.result()
        except StoreIncompatible as error:
            result = StoreIncompatible(f"{message.key}: {error}")
            result.__cause__ = error
        pending.popleft()
        report_result(result)
