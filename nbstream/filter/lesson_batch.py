"""Plan several lessons one after another, and commit them together: those of bulk, and those of listeners.

Rules:

- A lesson is planned on the counts that were read for its batch, plus what the batch itself teaches before it.
  What others teach meanwhile is missing for the rest of the batch, and for one that was read ahead.
- The lessons of a part that have the same labels before and after are one atomic step: for lessons of several
  classes each token would be looked up in all of these. The steps of a part are sent at the same time. An
  interruption leaves whole lessons.
- Each lesson has its own answer, also where others have changed its message meanwhile, or where it fails.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.counts import ChangePosition
from nbstream.bayes.kinds import kind_of, label_of
from nbstream.errors import CountsFull, NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.filter.lesson_plan import CountedCheck, PlannedLesson
from nbstream.filter.message_counts import count_names
from nbstream.filter.results import Lesson, LessonOutcome
from nbstream.store.model.commit import acknowledged_change
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
from nbstream.store.model.scripts import LessonBatch

if TYPE_CHECKING:
    from nbstream.filter.known_counts import KnownCounts, MessageRows
    from nbstream.filter.lesson_plan import LessonPlanner
    from nbstream.filter.message_counts import MessageCounts
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.sources import LessonStore
    from nbstream.policy.lesson_source import LessonSource
    from nbstream.tokens.tokenizer import TokenizedMessage

Entries: TypeAlias = "Sequence[LedgerEntry | StoreIncompatible | None]"

BatchAnswer: TypeAlias = "PlannedLesson | Lesson | LedgerConflict | NbstreamError"
"""What became of a lesson: it was made as planned, nothing had to change, others were faster, or it failed."""


@dataclass(frozen=True, slots=True)
class WantedLesson:
    """A message, the class that it is learned into, and who says it; without a class it is taken back.

    ``is_repeat``: a lesson shortly before gives the message this class.
    """

    message: TokenizedMessage
    class_name: str | None
    source: LessonSource
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class LessonsToPlan:
    """Lessons with their ledger entries and the rows of their counts; the rest is that of ``LessonPart``."""

    lessons: Sequence[tuple[WantedLesson, LedgerEntry | StoreIncompatible | None, MessageRows]]
    withdrawn: dict[str, str | StoreIncompatible]
    withdraws: bool = True


@dataclass(slots=True)
class LessonPart:
    """The lessons of a part with what is planned or answered for each, and the changes as the store takes them.

    ``commits`` has the changes by the labels before and after. ``withdrawn`` are the autolearned labels that were
    taken back, by message key, or why that failed; unless it ``withdraws``, what is autolearned is a conflict.
    """

    withdraws: bool
    withdrawn: dict[str, str | StoreIncompatible]
    commits: defaultdict[tuple[str | None, str | None], LessonBatch]
    lessons: list[tuple[WantedLesson, BatchAnswer]] = field(default_factory=list)


class LessonBatches:
    """Plans and commits batches of lessons, each of another message except repeats."""

    def __init__(self, parts: FilterParts, scorer: Scorer, planner: LessonPlanner) -> None:
        self._model = parts.model
        self._counts = parts.counts
        self._autolearn_layer = None if parts.parents else parts.autolearn_layer  # which is not an own model's
        self._scorer = scorer
        self._planner = planner
        self._make_batch = partial(LessonBatch, make_numbers=parts.make_name_numbers)

    async def read(
        self,
        lessons: Sequence[WantedLesson],
        entries: Entries,
        known_counts: KnownCounts,
        *,
        withdraws: bool = True,
    ) -> LessonsToPlan:
        """Read what is needed to plan the lessons; all lessons before them are in Redis.

        ``entries`` are the ledger entries of the messages; where one is not that of the ledger, the commit says
        so. ``withdraws`` says whether what was autolearned of the messages is taken back; otherwise the commit
        says of which ones there is something. Raises ``StoreUnavailable``.
        """
        withdrawn = await self._withdraw_autolearned(lessons) if withdraws else {}
        rows = await known_counts.read(_names_of_counts(lessons, entries))
        return LessonsToPlan(list(zip(lessons, entries, rows, strict=True)), withdrawn, withdraws)

    async def read_ahead(
        self, lessons: Sequence[WantedLesson], entries: Entries, known_counts: KnownCounts
    ) -> LessonsToPlan | None:
        """Read the same while lessons of other messages are planned or on their way.

        Returns None where it has to wait for them: what else is read changes with them, or others teach.
        """
        if self._scorer.has_budgets or await self._is_any_autolearned(lessons):
            return None
        rows = await known_counts.read_ahead(_names_of_counts(lessons, entries))
        return None if rows is None else LessonsToPlan(list(zip(lessons, entries, rows, strict=True)), {})

    async def plan(
        self, to_plan: LessonsToPlan, known_counts: KnownCounts, lessons_a_turn: int
    ) -> AsyncGenerator[LessonPart, None]:
        """Plan the lessons, and yield them in parts of one commit each.

        After ``lessons_a_turn`` lessons other work goes on.
        """
        withdrawn = to_plan.withdrawn
        part = LessonPart(to_plan.withdraws, withdrawn, defaultdict(self._make_batch))
        for i, (lesson, entry, rows) in enumerate(to_plan.lessons):
            if i and i % lessons_a_turn == 0:
                await asyncio.sleep(0)
            withdrawn_label = withdrawn.get(lesson.message.key)
            if isinstance(withdrawn_label, StoreIncompatible):
                part.lessons.append((lesson, withdrawn_label))
                continue
            if isinstance(entry, StoreIncompatible):
                part.lessons.append((lesson, entry))
                continue
            answer = self._plan_lesson(lesson, entry, known_counts.message_counts(rows))
            if isinstance(answer, PlannedLesson):
                if not part.commits[answer.labels].has_room(answer):
                    known_counts.end_step()
                    yield part
                    part = LessonPart(to_plan.withdraws, withdrawn, defaultdict(self._make_batch))
                known_counts.apply_lesson(rows, answer.counts_after)
                part.commits[answer.labels].add(answer)
            part.lessons.append((lesson, answer))
        known_counts.end_step()
        yield part

    def _plan_lesson(
        self, lesson: WantedLesson, entry: LedgerEntry | None, counts: MessageCounts
    ) -> PlannedLesson | Lesson | CountsFull:
        check = self._scorer.check(lesson.message.key, lesson.message.tokens, counts)
        if lesson.is_repeat and lesson.class_name:
            kind = kind_of(lesson.class_name)
            return Lesson(LessonOutcome.ALREADY, label_of(lesson.class_name), check, check, kind=kind)
        if (entry.class_name if entry else None) == lesson.class_name:
            outcome = LessonOutcome.ALREADY if entry else LessonOutcome.UNKNOWN
            label, kind = (entry.label, entry.kind) if entry else (None, "")
            return Lesson(outcome, label, check, check, kind=kind)
        before = CountedCheck(check, counts)
        try:
            return self._planner.plan(lesson.message, lesson.class_name, before, entry, lesson.source)
        except CountsFull as error:
            return error

    async def commit(self, part: LessonPart) -> list[tuple[WantedLesson, BatchAnswer]]:
        """Write the planned lessons of a part; return what became of each lesson, once the counts show it.

        Raises ``StoreUnavailable`` where the autolearned labels cannot be taken back; all may be taught again.
        """
        answers: dict[str, BatchAnswer] = {}
        layer = self._autolearn_layer.model if self._autolearn_layer and not part.withdraws else None
        commits = [self._commit(batch, layer) for batch in part.commits.values()]
        for of_batch in [await commits[0]] if len(commits) == 1 else await asyncio.gather(*commits):
            answers |= of_batch
        if part.withdraws:  # again, since the same message may have been autolearned in between
            part.withdrawn |= await self._withdraw_autolearned([lesson for lesson, _ in part.lessons])
        return [
            (lesson, answers[lesson.message.key] if isinstance(planned, PlannedLesson) else planned)
            for lesson, planned in part.lessons
        ]

    async def _commit(self, batch: LessonBatch, layer: LessonStore | None) -> Mapping[str, BatchAnswer]:
        """Write the lessons of a batch; return by message key what became of them, once the counts show it."""
        planned: list[PlannedLesson] = [lesson for lesson in batch.lessons if isinstance(lesson, PlannedLesson)]
        try:
            answers = await self._model.commit_lessons(batch, layer)
            changes = [
                acknowledged_change(lesson, answer) for lesson, answer in zip(planned, answers, strict=True)
            ]
            if last := max(filter(None, changes), key=ChangePosition.of, default=b""):
                await self._counts.wait_until_applied(last)
        except StoreUnavailable as error:
            return {lesson.message_key: error for lesson in planned}
        return {
            lesson.message_key: answer if not change and not isinstance(answer, bytes) else lesson
            for lesson, answer, change in zip(planned, answers, changes, strict=True)
        }

    async def _withdraw_autolearned(self, lessons: Sequence[WantedLesson]) -> dict[str, str | StoreIncompatible]:
        """Take back what was autolearned of the messages: a person's label replaces it."""
        if self._autolearn_layer is None:
            return {}
        return await self._autolearn_layer.withdraw_many([lesson.message.key for lesson in lessons])

    async def _is_any_autolearned(self, lessons: Sequence[WantedLesson]) -> bool:
        layer = self._autolearn_layer
        return layer is not None and any(await layer.model.entries([lesson.message.key for lesson in lessons]))


def _names_of_counts(lessons: Sequence[WantedLesson], entries: Entries) -> list[Sequence[bytes]]:
    """Return the names of the counts that matter for each message."""
    return [
        count_names(lesson.message.tokens, entry if isinstance(entry, LedgerEntry) else None)
        for lesson, entry in zip(lessons, entries, strict=True)
    ]
