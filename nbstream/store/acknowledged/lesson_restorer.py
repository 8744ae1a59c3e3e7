"""Finds the lessons that Redis has acknowledged and lost, and teaches them again.

A replica that is promoted lacks what the old primary acknowledged and had not passed on; so does a backup that is
put back. The processes of this host have recorded their lessons (``lesson_journal``), and one of them does this
work for all.

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
from typing import TYPE_CHECKING, Any, Protocol

from redis.exceptions import ResponseError

from nbstream.errors import NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.logs import event_fields
from nbstream.store.acknowledged.lesson_journal import LessonFileReader
from nbstream.store.acknowledged.missing_lessons import Finding, find_lessons
from nbstream.store.backoff import Backoff
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.connection import primary_of
from nbstream.store.model.commit import Settled, commit_planned
from nbstream.store.model.scripts import LessonCommit
from nbstream.store.redis_errors import readable_replies, store_errors

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from nbstream.store.acknowledged.lesson_journal import LessonJournal
    from nbstream.store.acknowledged.missing_lessons import RecordedLesson
    from nbstream.store.mirror.mirror import Mirror
    from nbstream.store.model.history import HistoryStep
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model

_log = logging.getLogger(__name__)

_PERIOD_SECONDS = 30.0
_LEDGER_BATCH = 200  # messages: one field of each, in one round trip
_BEFORE_MILLISECONDS = 2000  # the history is read from a little before the first lesson in question


class RestorationObserver(Protocol):
    """Receives what a ``LessonRestorer`` finds and does."""

    def changes_lost(self, changes: int) -> None:
        """Report changes that the mirror of this process had applied and that Redis lacks."""

    def lessons_lost(self, findings: Mapping[Finding, int], restored: int) -> None:
        """Report recorded lessons that Redis lacks, by finding, and how many of them were taught again."""


class LessonRestorer:
    """Compares what the processes of this host have recorded with ``model``, and teaches again what is missing.

    ``journal`` is that of this process; ``mirror`` follows the model.
    """

    def __init__(
        self, journal: LessonJournal, model: Model, mirror: Mirror, observer: RestorationObserver
    ) -> None:
        self._journal = journal
        self._model = model
        self._mirror = mirror
        self._observer = observer
        self._reader = LessonFileReader(journal.folder)
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
        model, identity = self._model.keys.model, self._journal.identity
        recorded = await asyncio.to_thread(self._reader.read_next, model, identity)
        chains = await asyncio.to_thread(_chains_of, recorded.lessons)  # some 10,000 a process take 0.1 s
        if loads != self._loads and self._settled:
            self._settled &= {(lesson.change, lesson.message_key) for lesson in recorded.lessons}
        self._log_former_models(recorded.of_former_models)
        comparison = _Comparison(self._model, self._reader, self._settled)
        try:
            await comparison.restore(chains)
        finally:
            self._report(comparison)
        self._loads = loads
        if await self._has_its_replicas():
            await asyncio.to_thread(self._reader.remove_expired)
        return comparison.restored

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

    def _report(self, comparison: _Comparison) -> None:
        lost_changes = self._mirror.lost_changes - self._lost_changes
        self._lost_changes += lost_changes
        findings = comparison.findings
        if not lost_changes and not findings:
            return
        self._observer.changes_lost(lost_changes)
        self._observer.lessons_lost(findings, comparison.restored)
        _log.error(
            "Redis had lost %d lessons that it had acknowledged to this host; %d are taught again",
            findings.total(),
            comparison.restored,
            extra=event_fields(
                superseded=findings[Finding.SUPERSEDED],
                unknown=findings[Finding.UNKNOWN],
                changes_lost=lost_changes,
                not_recorded_here=max(0, lost_changes - findings.total()),
            ),
        )

    def _log_former_models(self, of_former_models: Mapping[str, int]) -> None:
        """Log once that the lessons of a former model are not taught again."""
        for identity, lessons in of_former_models.items():
            if identity not in self._former_models:
                _log.warning(
                    "%d recorded lessons are not compared with Redis: the model was deleted or replaced since",
                    lessons,
                )
            self._former_models.add(identity)


def _chains_of(lessons: Sequence[RecordedLesson]) -> dict[str, list[RecordedLesson]]:
    """The lessons of each message in their order; one that was taught again is the same as the lost one."""
    lessons_of: dict[str, dict[bytes, RecordedLesson]] = defaultdict(dict)
    for lesson in sorted(lessons, key=lambda lesson: lesson.order):
        lessons_of[lesson.message_key].setdefault(lesson.change, lesson)
    return {message_key: list(chain.values()) for message_key, chain in lessons_of.items()}


class _Comparison:
    """One comparison of recorded lessons with ``model``.

    ``findings`` counts the lessons that are lost by what was found of them, ``restored`` those that were taught
    again. A lesson in ``settled`` was counted before.
    """

    def __init__(self, model: Model, reader: LessonFileReader, settled: set[tuple[bytes, str]]) -> None:
        self.findings = Counter[Finding]()
        self.restored = 0
        self._model = model
        self._reader = reader
        self._settled = settled
        self._steps_of: dict[str, list[HistoryStep]] = {}
        self._last_step = b"0-0"
        self._trimmed_until = 0

    async def restore(self, chains: Mapping[str, Sequence[RecordedLesson]]) -> None:
        """Teach again those lessons that are missing; ``chains`` has those of each message in their order.

        Raises ``StoreUnavailable`` and ``StoreIncompatible``.
        """
        suspects = {message_key: chains[message_key] for message_key in await self._messages_in_question(chains)}
        if not suspects:
            return
        since = min(chain[0].milliseconds for chain in suspects.values()) - _BEFORE_MILLISECONDS
        self._last_step = b"%d-0" % max(0, since)
        self._steps_of = {message_key: [] for message_key in suspects}
        self._trimmed_until = await self._model.history.trimmed_until()
        await self._read_steps()
        for message_key, chain in suspects.items():
            stop_if_cancelled()
            await asyncio.sleep(0)  # whatever was found of one message, mail goes on before the next one
            for i, finding in enumerate(self._find(chain)):
                lesson = chain[i]
                if finding is not Finding.PRESENT and (lesson.change, message_key) not in self._settled:
                    stop_if_cancelled()
                    await self._settle(lesson, chain[:i], finding)

    async def _messages_in_question(self, chains: Mapping[str, Sequence[RecordedLesson]]) -> Sequence[str]:
        """Return the messages whose ledger entry is not that of their last recorded lesson, or that have none."""
        message_keys, suspects = list(chains), []
        for first in range(0, len(message_keys), _LEDGER_BATCH):
            batch = message_keys[first : first + _LEDGER_BATCH]
            versions = await self._model.entry_versions(batch)
            for message_key, version in zip(batch, versions, strict=True):
                if not version or version != chains[message_key][-1].version:
                    suspects.append(message_key)
        return suspects

    async def _read_steps(self) -> None:
        """Read the steps that the history has got since the last call."""
        async for step in self._model.history.steps(self._last_step):
            self._last_step = step.id
            if step.message_key in self._steps_of:
                self._steps_of[step.message_key].append(step)

    async def _settle(self, lesson: RecordedLesson, earlier: Sequence[RecordedLesson], finding: Finding) -> None:
        """Teach a lesson again if it is missing, and count it if it was lost."""
        if finding is Finding.MISSING:
            try:
                finding = await self._teach_again(lesson, earlier)
            except StoreIncompatible as error:
                _log.error("a lost lesson cannot be taught again: %s: %s", lesson.message_key, error)
                finding = Finding.UNKNOWN
        if finding is Finding.SUPERSEDED:
            entry = await self._model.entry(lesson.message_key)
            if (entry.label if entry else "") == lesson.label:  # somebody has taught the same again
                finding = Finding.PRESENT
        if finding is not Finding.PRESENT:
            self.findings[finding] += 1
            if finding is not Finding.MISSING:
                self._settled.add((lesson.change, lesson.message_key))

    def _find(self, chain: Sequence[RecordedLesson]) -> list[Finding]:
        """What became of each of the lessons of one message, by the steps that have been read."""
        return [
            Finding.UNKNOWN
            if finding is Finding.MISSING and lesson.milliseconds <= self._trimmed_until
            else finding
            for lesson, finding in zip(
                chain, find_lessons(chain, self._steps_of[chain[0].message_key]), strict=True
            )
        ]

    async def _teach_again(self, lesson: RecordedLesson, earlier: Sequence[RecordedLesson]) -> Finding:
        """Teach a missing lesson again, unless somebody was faster; return what was found in the end.

        The history is read once more after the ledger: who has taught the message before that is seen there, and
        who does so later changes the version of the entry.
        """
        acknowledged = await asyncio.to_thread(self._reader.read_lesson, lesson)
        if acknowledged is None:
            return Finding.UNKNOWN
        new, note = acknowledged.entry, replace(acknowledged.note, repeats=lesson.change)

        async def plan(
            current: LedgerEntry | None, former: LessonCommit | None
        ) -> LessonCommit | Settled[Finding]:
            await self._read_steps()
            finding = self._find([*earlier, lesson])[-1]
            if finding is Finding.PRESENT and former:  # the reply to our own attempt was lost
                self.restored += 1
                return Settled(Finding.MISSING)
            if finding is not Finding.MISSING:
                return Settled(finding)
            if current is None and new is None:  # nothing to take back, unless another host repairs that later
                self._reader.read_again(lesson)
                return Settled(Finding.PRESENT)
            if current and new and current.version == new.version:  # nothing is to be done
                return Settled(Finding.PRESENT)
            return LessonCommit(lesson.message_key, current, new, note)

        # A promoted server may have no replica yet, and the record of the lesson stands until it has one.
        commit = partial(self._model.commit_lesson, waits_for_replicas=False)
        current = await self._model.entry(lesson.message_key)
        restored = await commit_planned(commit, lesson.message_key, current, plan)
        if isinstance(restored, Settled):
            return restored.result
        await self._read_steps()
        self.restored += 1
        return Finding.MISSING
