"""The three verbs."""

from __future__ import annotations

import asyncio
import copy
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.counts import CLASSES
from nbstream.errors import CountsFull, StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.filter.bulk import Bulk, Curriculum
from nbstream.filter.former_keys import under_ledger_keys
from nbstream.filter.lesson_plan import Steps, Taught
from nbstream.filter.protocols import Silent
from nbstream.filter.results import Lesson, Outcome
from nbstream.filter.scorer import Scorer, decided
from nbstream.store.recent.checked_messages import Checked
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier
    from nbstream.filter.check_queue import Line
    from nbstream.filter.lesson_plan import Step
    from nbstream.filter.protocols import CountSource, GivingWay, Observer, Recalling, Teachable
    from nbstream.filter.results import Check, Params
    from nbstream.mail.message import Message
    from nbstream.policy.recipient_rules import Treatment
    from nbstream.store.model.ledger import Entry
    from nbstream.tokens.tokenizer import Tokenizer

_MAX_CONFLICTS = 20
_THREAD_BYTES = 64 * 1024
"""Larger messages are taken apart in a thread: others wait for a switch, not for the whole."""

Subject: TypeAlias = "Message | Checked"
"""What a label is given to: a message, or what is remembered of one that was checked."""


Decide: TypeAlias = "Callable[[Check], Awaitable[Check]]"
"""Gives a check as it holds for those whom the message is for."""


class Filter:
    """Checks messages and learns from people, over one model; checks stand in ``line``, where there is one."""

    def __init__(  # noqa: PLR0913 - the one place where the parts of the house meet
        self,
        *,
        tokenizer: Tokenizer,
        classifier: Classifier,
        calibration: Calibration,
        model: Teachable,
        counts: CountSource,
        params: Params,
        observer: Observer | None = None,
        memory: Recalling | None = None,
        clock: Callable[[], float] = time.time,
        auto: GivingWay | None = None,
        line: Line | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        self._scorer = Scorer(classifier, calibration, counts, params, clock)
        self._model = model
        self._counts = counts
        self._observer = observer or Silent()
        self._memory = memory
        self._steps = Steps(self._scorer, counts, clock)
        self._auto = auto
        self._line = line

    def with_params(self, params: Params) -> Filter:
        """The same filter by other params; checks and lessons under way go on by those that they began with."""
        other = copy.copy(self)
        other._scorer = self._scorer.with_params(params)
        other._steps = self._steps.scored_by(other._scorer)
        return other

    async def check(self, message: Message, decide: Decide | None = None) -> Check:
        """Score ``message`` and decide, by the policy of ``Params`` or as ``decide`` then does (see ``decide``).

        Raises ``StoreUnavailable`` while no counts are loaded.
        """
        asked = time.perf_counter()
        if self._line and len(message.raw) <= _THREAD_BYTES:
            await self._line.turn()
        tokens, stages = await self._take_apart(message, asked)
        started = time.perf_counter()
        check = self._scorer.check(message.key, tokens, await self._scorer.read(tokens))
        stages["score"] = time.perf_counter() - started
        if decide:
            check = await decide(check)
        self._observer.checked(check, tokens, stages)
        return check

    async def learn(self, subject: Subject, label: str, source: str, actor: str = "") -> Lesson:
        """Learn that ``subject`` is ``label`` ("spam" or "ham"); the other label than before relearns it.

        ``source`` is the door it came through, ``actor`` who came: a peer's address, a user. Raises
        ``StoreUnavailable``; nothing is half done then, and the same call may be made again.
        """
        if label not in CLASSES:
            raise ValueError(f"label {label!r} is none of {', '.join(CLASSES)}")
        return await self._teach(subject, label, source, actor)

    async def unlearn(self, subject: Subject, source: str, actor: str = "") -> Lesson:
        """Take back exactly what ``subject`` was learned as. Raises ``StoreUnavailable``."""
        return await self._teach(subject, None, source, actor)

    async def teach_many(
        self,
        subjects: AsyncIterable[Subject | Taught],
        label: str | None,
        by: tuple[str, str],
        told: Callable[[Lesson | StoreIncompatible], object],
    ) -> None:
        """Teach many messages, as if one after another: each is ``label`` now, or with None no longer learned.

        ``by`` are source and actor. ``told`` is given each lesson in order, or the error for a message of which it
        cannot be read what it was learned as. ``Taught`` are messages that have been taken apart already. See
        ``bulk``; the filter's observer hears of none of it. Raises ``StoreUnavailable``; of what was not told of
        some may have been learned then, whole, and all of it may be taught again.
        """
        bulk = Bulk(self._model, self._counts, (self._scorer, self._steps), self._auto, self._teach_alone)
        async with aclosing(self._taken_apart(subjects)) as taught:
            await bulk.teach(taught, Curriculum(label, by, told))

    async def _taken_apart(self, subjects: AsyncIterable[Subject | Taught]) -> AsyncGenerator[Taught, None]:
        async for subject in subjects:
            if isinstance(subject, Taught):
                yield subject
                continue
            yield await self._taught(subject)
            await asyncio.sleep(0)  # what is being written goes on

    async def _teach_alone(self, taught: Taught, label: str | None, by: tuple[str, str]) -> Lesson:
        (taught,) = await under_ledger_keys(self._model, self._auto, [taught])
        withdrawn = await self._withdraw(taught.key)
        lesson = await self._change(taught.key, taught.tokens, label, by)
        # Again, since the same message may have been learned without people in between.
        withdrawn = await self._withdraw(taught.key) or withdrawn
        return lesson.withdrawing(withdrawn) if withdrawn else lesson

    async def decide(self, check: Check, treatment: Treatment) -> Check:
        """The same check as another treatment's policy decides, one of ``Params.others``.

        Raises ``StoreUnavailable`` while no counts are loaded.
        """
        thresholds = self._scorer.thresholds(treatment.policy, await self._scorer.first_scores())
        return replace(decided(check, thresholds), policy=treatment.name)

    async def recall(self, message_key: str) -> Checked | None:
        """What is known of a message by its key alone: as it was checked, else as it was learned, else None.

        The ledger keeps the tokens of what was learned, but neither attributes nor numbers. Raises
        ``StoreUnavailable``.
        """
        remembered = await self._memory.recall(message_key) if self._memory else None
        if remembered:
            return remembered
        entry = await self._model.entry(message_key)
        if entry is None:
            return None
        tokens = Tokens.grouped(entry.tokens)
        check = self._scorer.check(message_key, tokens, await self._scorer.read(tokens))
        return Checked(message_key, tokens, check.probability, str(check.verdict))

    async def _teach(self, subject: Subject, label: str | None, source: str, actor: str) -> Lesson:
        try:
            taught = await self._taught(subject)
            lesson = await self._teach_alone(taught, label, (source, actor))
        except Exception as error:
            self._observer.teaching_failed(label, source)
            if isinstance(error, StoreRefuses):
                self._observer.store_refused()
            raise
        self._observer.taught(lesson, source, actor)
        return lesson

    async def _withdraw(self, key: str) -> str | None:
        """What a person says of a message replaces what was learned of it without people."""
        return await self._auto.withdraw(key) if self._auto else None

    async def _change(self, key: str, tokens: Tokens, label: str | None, by: tuple[str, str]) -> Lesson:
        """Bring the ledger's entry of the message to ``label`` (None: no entry)."""
        reading = await self._scorer.read(tokens)
        before = self._scorer.check(key, tokens, reading)
        step: Step | None = None
        # Most of what is learned is new: so it is taken to be, and else the answer is what the ledger holds.
        entry = None if label else await self._model.entry(key)
        for _ in range(_MAX_CONFLICTS):
            if (entry.label if entry else None) == label:
                if step is None or (entry and step.new and entry.version != step.new.version):
                    return await self._unchanged(entry, label, before)
                # The reply to our own write was lost, and it was made again: it was applied once.
                change = entry.change if entry else await self._model.last_change()
                break
            if entry and not set(entry.tokens).issubset(reading.names):  # of a copy that came another way
                reading = await self._scorer.read_names(self._scorer.names(tokens, entry))
                before = self._scorer.check(key, tokens, reading)
            try:
                step = self._steps.plan(Taught(key, tokens), label, (before, reading), entry, by)
            except CountsFull:
                if entry or (entry := await self._model.entry(key)) is None:
                    raise
                continue
            found = await self._model.replace(key, entry, step.new, step.note)
            if isinstance(found, bytes):
                change = found
                break
            entry = found.entry
        else:
            raise StoreUnavailable(f"message {key} is being changed by others all the time")
        await self._counts.applied(change)
        return Lesson(step.outcome, step.label, before, await self._after(step, tokens))

    async def _after(self, step: Step, tokens: Tokens) -> Check:
        """What is thought of the message once the step was made."""
        if self._auto or not self._scorer.foresees:
            return self._scorer.check(step.after.id, tokens, await self._scorer.read(tokens))
        _, totals = await self._counts.look_up(())
        return self._scorer.settled(step.after, totals, await self._scorer.first_scores())

    async def _unchanged(self, entry: Entry | None, label: str | None, before: Check) -> Lesson:
        """It is so already. A repeat after a lost reply ends here too, so the mirror must have it as well."""
        if entry is None:
            return Lesson(Outcome.UNKNOWN, label, before, before)
        await self._counts.applied(entry.change)
        return Lesson(Outcome.ALREADY, label, before, before)

    async def _taught(self, subject: Subject) -> Taught:
        if isinstance(subject, Checked):
            tokens = subject.tokens
        else:
            tokens, _ = await self._take_apart(subject, time.perf_counter())
        former = None if isinstance(subject, Checked) else subject.former_key
        return Taught(subject.key, tokens, former)  # only now: whoever asks for the key first takes it apart

    async def _take_apart(self, message: Message, asked: float) -> tuple[Tokens, dict[str, float]]:
        """Its tokens, and the seconds of each stage; ``asked`` was the moment from which it waited."""
        if len(message.raw) > _THREAD_BYTES:
            return await asyncio.to_thread(self._take_apart_now, message, asked)
        return self._take_apart_now(message, asked)

    def _take_apart_now(self, message: Message, asked: float) -> tuple[Tokens, dict[str, float]]:
        started = time.perf_counter()
        message.key  # noqa: B018 - parses the parts and computes the key, both kept by the message
        parsed = time.perf_counter()
        tokens = self._tokenizer.tokenize(message)
        ended = time.perf_counter()
        return tokens, {"wait": started - asked, "parse": parsed - started, "tokenize": ended - parsed}
