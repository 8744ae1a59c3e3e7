"""Finds the lessons that Redis has acknowledged and lost, and teaches them again.

A replica that is promoted lacks what the old primary acknowledged and had not passed on; so does a backup that is
put back. The processes of this host have recorded their lessons (``model.lesson_journal``), and one of them does
this work for all.

Rules:

- All recorded lessons are compared with Redis whenever the mirror has loaded the counts, and the new ones every
  ``_PERIOD_SECONDS``: a process may have taught the old primary some time longer than this one.
- First the ledger is asked: a message whose entry is that of its last recorded lesson has lost nothing. Of the
  other messages the history says what was lost; see ``missing_lessons``.
- A lesson is taught again through the same script, as a new change that replaces the entry of now: the ledger, the
  counts and the history stay exact. The history names the lost change, so the lesson is taught again once, by
  whoever is first.
- A lost removal of an entry that is not there is compared again each time, as long as it is recorded: the lesson
  before it may have been lost too, at another host that is slower to repair it.
- The files are removed when all replicas that there were still follow, and have had the time to get the lessons. A
  primary without them may be one of two, and then only these files know what it took.
- Lessons of a model that was deleted or replaced since are not taught to its successor.
- Only what people taught is recorded. What was learned without people may be lost; the reconciler takes back what
  comes back and is in dispute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from redis.exceptions import ResponseError

from nbstream.errors import NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.logs import event_fields
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import primary_of
from nbstream.store.model.commit import Settled, commit_planned
from nbstream.store.model.scripts import LessonCommit
from nbstream.store.recovery.missing_lessons import LessonFate, fates
from nbstream.store.recovery.recorded_lessons import LessonReader
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.history import History, HistoryStep
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.lesson_journal import LessonJournal
    from nbstream.store.model.model import Model
    from nbstream.store.recovery.recorded_lessons import RecordedLesson

_log = logging.getLogger(__name__)

_PERIOD_SECONDS = 30.0
_LEDGER_BATCH = 200  # messages: one field of each, in one round trip
_BEFORE_MILLISECONDS = 2000  # the history is read from a little before the first lesson in question


class LessonRestorer:
    """Compares what the processes of this host have recorded with ``model``, and teaches again what is missing.

    ``journal`` is that of this process; ``mirror`` follows the model. ``report_losses`` is called with the number
    of changes that the mirror had applied and that Redis lacks, and with the number of recorded lessons that Redis
    lacks, by what became of them: those that were ``MISSING`` are taught again.
    """

    def __init__(
        self,
        journal: LessonJournal,
        model: Model,
        mirror: Mirror,
        report_losses: Callable[[int, Mapping[LessonFate, int]], object],
    ) -> None:
        self._journal = journal
        self._model = model
        self._mirror = mirror
        self._report_losses = report_losses
        self._reader = LessonReader(journal.folder)
        self._loads = 0
        self._most_replicas = int(primary_of(model.client).is_located)
        self._lost_changes = 0
        self._settled: set[tuple[bytes, str]] = set()  # what was lost and stays so was reported once
        self._former_models: set[str] = set()  # likewise

    async def run(self) -> None:
        """Restore what is missing whenever that may be so, until cancelled.

        Of failures in a row the first is logged.
        """
        backoff = Backoff()
        await self._mirror.wait_for_load_after(0)
        while True:
            stop_if_cancelled()
            try:
                with readable_replies():
                    await self.restore_missing()
                backoff.reset()
                pause = _PERIOD_SECONDS
            except NbstreamError as error:
                if not backoff.failures:
                    _log.warning("acknowledged lessons are not compared with Redis yet: %s", error)
                self._reader.start_again()
                pause = backoff.next_wait()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._mirror.wait_for_load_after(self._loads), pause)

    async def restore_missing(self) -> int:
        """Compare the recorded lessons that are to be compared, and return how many were taught again.

        These are those since the last call, and all after the mirror has loaded. Raises ``StoreUnavailable`` and
        ``StoreIncompatible``; the same lessons are to be compared once more then.
        """
        loads = self._mirror.loads
        if loads != self._loads:
            self._reader.start_again()
        await self._model.open()
        await self._check_same_server()
        recorded = await asyncio.to_thread(self._reader.read_next, self._model.keys.model)
        self._log_former_models(recorded)
        lessons = [lesson for lesson in recorded if lesson.identity == self._journal.identity]
        chains = await asyncio.to_thread(_chains_of, lessons)  # some 10,000 take 0.1 s
        if loads != self._loads and self._settled:
            self._settled &= {(lesson.change, lesson.message_key) for lesson in lessons}
        lost = Counter[LessonFate]()
        try:
            await self._restore(await self._chains_in_question(chains), lost)
        finally:
            self._report(lost)
        self._loads = loads
        if await self._has_its_replicas():
            await asyncio.to_thread(self._reader.remove_compared)
        return lost[LessonFate.MISSING]

    async def _check_same_server(self) -> None:
        """Raise ``StoreUnavailable`` where Redis is not the one that the mirror follows, or lets nobody sign."""
        known = self._mirror.last_change
        if known and not await self._model.has_change(known):
            raise StoreUnavailable("Redis is not the one that the mirror follows, or not yet")
        if not self._journal.identity:
            raise StoreUnavailable("Redis does not let the model be signed")

    async def _has_its_replicas(self) -> bool:
        """Return whether as many replicas follow the server as ever did; True where it does not say it."""
        reply: Any = []
        with store_errors(), suppress(ResponseError):
            reply = await self._model.client.role()
        replicas = len(reply[2]) if reply[:1] == [b"master"] else self._most_replicas
        self._most_replicas = max(self._most_replicas, replicas)
        return replicas == self._most_replicas

    async def _chains_in_question(
        self, chains: Mapping[str, Sequence[RecordedLesson]]
    ) -> Mapping[str, Sequence[RecordedLesson]]:
        """Return the chains whose last lesson did not write the ledger entry of their message, or removed it."""
        message_keys, in_question = list(chains), {}
        for first in range(0, len(message_keys), _LEDGER_BATCH):
            batch = message_keys[first : first + _LEDGER_BATCH]
            for message_key, version in zip(batch, await self._model.entry_versions(batch), strict=True):
                if not version or version != chains[message_key][-1].version:
                    in_question[message_key] = chains[message_key]
        return in_question

    async def _restore(self, chains: Mapping[str, Sequence[RecordedLesson]], lost: Counter[LessonFate]) -> None:
        """Teach again those lessons that are missing, and count in ``lost`` what became of those that are lost."""
        if not chains:
            return
        steps = _Steps(self._model.history, chains, await self._model.history.trimmed_until())
        await steps.read_on()
        for message_key, chain in chains.items():
            stop_if_cancelled()
            await asyncio.sleep(0)  # whatever became of one message, mail goes on before the next one
            for i, known in enumerate(steps.fates(chain)):
                lesson = chain[i].change, message_key
                if known is LessonFate.PRESENT or lesson in self._settled:
                    continue
                stop_if_cancelled()
                fate = await self._teach_again(chain[: i + 1], steps)
                if fate is not LessonFate.PRESENT:
                    lost[fate] += 1
                    if fate is not LessonFate.MISSING:
                        self._settled.add(lesson)

    async def _teach_again(self, chain: Sequence[RecordedLesson], steps: _Steps) -> LessonFate:
        """Teach the last lesson of a chain again if it is missing; return what had become of it.

        The history is read once more after the ledger: who has taught the message before that is seen there, and
        who does so later changes the version of the entry.
        """
        lesson = chain[-1]
        acknowledged = await asyncio.to_thread(self._reader.read_lesson, lesson)

        async def plan(
            current: LedgerEntry | None, former: LessonCommit | None
        ) -> LessonCommit | Settled[LessonFate]:
            await steps.read_on()
            fate = steps.fates(chain)[-1]
            if fate is LessonFate.PRESENT and former:  # the reply to our own attempt was lost
                return Settled(LessonFate.MISSING)
            if fate is LessonFate.SUPERSEDED and lesson.class_name == (current.class_name if current else ""):
                return Settled(LessonFate.PRESENT)  # somebody has taught the same again
            if fate is not LessonFate.MISSING:
                return Settled(fate)
            if acknowledged is None:
                return Settled(LessonFate.UNKNOWN)
            new = acknowledged.entry
            if current is None and new is None:  # nothing to take back, unless another host repairs that later
                self._reader.read_again(lesson)
                return Settled(LessonFate.PRESENT)
            if current and new and current.version == new.version:  # nothing is to be done
                return Settled(LessonFate.PRESENT)
            return LessonCommit(
                lesson.message_key, current, new, replace(acknowledged.note, repeats=lesson.change)
            )

        # A promoted server may have no replica yet, and the record of the lesson stands until it has one.
        commit = partial(self._model.commit_lesson, waits_for_replicas=False)
        try:
            current = await self._model.entry(lesson.message_key)
            taught = await commit_planned(commit, lesson.message_key, current, plan)
        except StoreIncompatible as error:
            _log.error("a lost lesson cannot be taught again: %s: %s", lesson.message_key, error)
            return LessonFate.UNKNOWN
        return taught.result if isinstance(taught, Settled) else LessonFate.MISSING

    def _report(self, lost: Counter[LessonFate]) -> None:
        lost_changes = self._mirror.lost_changes - self._lost_changes
        self._lost_changes += lost_changes
        if not lost_changes and not lost:
            return
        self._report_losses(lost_changes, lost)
        _log.error(
            "Redis had lost %d lessons that it had acknowledged to this host; %d are taught again",
            lost.total(),
            lost[LessonFate.MISSING],
            extra=event_fields(
                superseded=lost[LessonFate.SUPERSEDED],
                unknown=lost[LessonFate.UNKNOWN],
                changes_lost=lost_changes,
                not_recorded_here=max(0, lost_changes - lost.total()),
            ),
        )

    def _log_former_models(self, lessons: Sequence[RecordedLesson]) -> None:
        """Log once that the lessons of a former model with the same name are not taught again."""
        for identity, count in Counter(lesson.identity for lesson in lessons).items():
            if identity != self._journal.identity and identity not in self._former_models:
                self._former_models.add(identity)
                _log.warning(
                    "%d recorded lessons are not compared with Redis: the model was deleted or replaced since",
                    count,
                )


def _chains_of(lessons: Sequence[RecordedLesson]) -> dict[str, list[RecordedLesson]]:
    """The lessons of each message in their order; one that was taught again is the same as the lost one."""
    lessons_of: dict[str, dict[bytes, RecordedLesson]] = defaultdict(dict)
    for lesson in sorted(lessons, key=lambda lesson: lesson.order):
        lessons_of[lesson.message_key].setdefault(lesson.change, lesson)
    return {message_key: list(chain.values()) for message_key, chain in lessons_of.items()}


class _Steps:
    """The steps that the history has of the messages of these chains, since their first lessons."""

    def __init__(
        self, history: History, chains: Mapping[str, Sequence[RecordedLesson]], trimmed_until: int
    ) -> None:
        since = min(chain[0].milliseconds for chain in chains.values()) - _BEFORE_MILLISECONDS
        self._history = history
        self._steps_of: dict[str, list[HistoryStep]] = {message_key: [] for message_key in chains}
        self._last_step = b"%d-0" % max(0, since)
        self._trimmed_until = trimmed_until

    async def read_on(self) -> None:
        """Read the steps that the history has got since the last call."""
        async for step in self._history.steps(self._last_step):
            self._last_step = step.id
            if step.message_key in self._steps_of:
                self._steps_of[step.message_key].append(step)

    def fates(self, chain: Sequence[RecordedLesson]) -> list[LessonFate]:
        """What became of each of the lessons of one message, by the steps that have been read."""
        return fates(chain, self._steps_of[chain[0].message_key], self._trimmed_until)
