"""The three verbs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.counts import CLASSES
from nbstream.errors import CountsFull, StoreIncompatible, StoreRefuses, StoreUnavailable
from nbstream.filter.bulk import BulkLearner, BulkRequest
from nbstream.filter.former_keys import under_ledger_keys
from nbstream.filter.lesson_plan import CountedCheck, LessonPlanner, TokenizedMessage
from nbstream.filter.results import CheckSeconds, Lesson, LessonOutcome
from nbstream.filter.scorer import Scorer, decide_check
from nbstream.policy.lesson_source import LessonSource
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from nbstream.filter.lesson_plan import PlannedLesson
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import Check, FilterPolicy
    from nbstream.mail.message import Message
    from nbstream.policy.recipient_rules import RecipientTreatment
    from nbstream.store.model.ledger import LedgerEntry

_MAX_CONFLICTS = 20
_THREAD_BYTES = 64 * 1024
"""Larger messages are taken apart in a thread: others wait for a switch, not for the whole."""

LearnableMessage: TypeAlias = "Message | CheckedMessage"
"""What a label is given to: a message, or what is remembered of one that was checked."""


CheckDecider: TypeAlias = "Callable[[Check], Awaitable[Check]]"
"""Gives a check as it holds for those whom the message is for."""


class Filter:
    """Checks messages and learns from people, over one model; see ``FilterParts``."""

    def __init__(self, parts: FilterParts, policy: FilterPolicy) -> None:
        self.parts = parts
        self.policy = policy
        self._scorer = Scorer(parts.classifier, parts.calibration, parts.counts, policy, parts.clock)
        self._planner = LessonPlanner(self._scorer, parts)

    def with_policy(self, policy: FilterPolicy) -> Filter:
        """Make a filter of the same parts with another policy.

        Checks and lessons that have begun end with the policy that they began with.
        """
        return Filter(self.parts, policy)

    async def check(self, message: Message, decide: CheckDecider | None = None) -> Check:
        """Score ``message`` and decide, by the default policy or as ``decide`` then does.

        Raises ``StoreUnavailable`` while no counts are loaded.
        """
        asked = time.perf_counter()
        if self.parts.check_queue and len(message.raw) <= _THREAD_BYTES:
            await self.parts.check_queue.wait_for_turn()
        tokens, seconds = await self._tokenize(message, asked)
        started = time.perf_counter()
        check = self._scorer.check(message.key, tokens, await self._scorer.read_counts(tokens))
        seconds = replace(seconds, score=time.perf_counter() - started)
        if decide:
            check = await decide(check)
        self.parts.observer.checked(check, tokens, seconds)
        return check

    async def learn(self, subject: LearnableMessage, label: str, source: str, actor: str = "") -> Lesson:
        """Learn that ``subject`` is ``label`` ("spam" or "ham"); the other label than before relearns it.

        ``source`` is the door it came through, ``actor`` who came: a peer's address, a user. Raises
        ``StoreUnavailable``; nothing is half done then, and the same call may be made again.
        """
        if label not in CLASSES:
            raise ValueError(f"label {label!r} is none of {', '.join(CLASSES)}")
        return await self._learn_and_report(subject, label, source, actor)

    async def unlearn(self, subject: LearnableMessage, source: str, actor: str = "") -> Lesson:
        """Take back exactly what ``subject`` was learned as. Raises ``StoreUnavailable``."""
        return await self._learn_and_report(subject, None, source, actor)

    async def learn_many(
        self,
        subjects: AsyncIterable[LearnableMessage | TokenizedMessage],
        label: str | None,
        lesson_source: LessonSource,
        report_result: Callable[[Lesson | StoreIncompatible], object],
    ) -> None:
        """Teach many messages, as if one after another: each is ``label`` now, or with None no longer learned.

        ``report_result`` is given each lesson in order, or the error for a message of which it
        cannot be read what it was learned as. ``TokenizedMessage`` are messages that have been taken apart
        already. See ``bulk``; the filter's observer hears of none of it. Raises ``StoreUnavailable``; of what was
        not told of some may have been learned then, whole, and all of it may be taught again.
        """
        bulk = BulkLearner(self.parts, self._scorer, self._planner, self._learn_one)
        async with aclosing(self._tokenize_all(subjects)) as taught:
            await bulk.learn_all(taught, BulkRequest(label, lesson_source, report_result))

    async def _tokenize_all(
        self, subjects: AsyncIterable[LearnableMessage | TokenizedMessage]
    ) -> AsyncGenerator[TokenizedMessage, None]:
        async for subject in subjects:
            if isinstance(subject, TokenizedMessage):
                yield subject
                continue
            yield await self._tokenize_subject(subject)
            await asyncio.sleep(0)  # what is being written goes on

    async def _learn_one(self, taught: TokenizedMessage, label: str | None, lesson_source: LessonSource) -> Lesson:
        (taught,) = await under_ledger_keys(self.parts.model, self.parts.autolearn_layer, [taught])
        withdrawn = await self._withdraw_autolearned(taught.key)
        lesson = await self._change_entry(taught.key, taught.tokens, label, lesson_source)
        # Again, since the same message may have been learned without people in between.
        withdrawn = await self._withdraw_autolearned(taught.key) or withdrawn
        return lesson.with_withdrawn_label(withdrawn) if withdrawn else lesson

    async def decide_for_treatment(self, check: Check, treatment: RecipientTreatment) -> Check:
        """The same check as another treatment's policy decides, one of ``FilterPolicy.others``.

        Raises ``StoreUnavailable`` while no counts are loaded.
        """
        thresholds = self._scorer.thresholds(treatment.policy, await self._scorer.first_scores())
        return replace(decide_check(check, thresholds), policy=treatment.name)

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """What is known of a message by its key alone: as it was checked, else as it was learned, else None.

        The ledger keeps the tokens of what was learned, but neither attributes nor numbers. Raises
        ``StoreUnavailable``.
        """
        remembered = await self.parts.checked_messages.recall(message_key) if self.parts.checked_messages else None
        if remembered:
            return remembered
        entry = await self.parts.model.entry(message_key)
        if entry is None:
            return None
        tokens = Tokens.from_all(entry.tokens)
        check = self._scorer.check(message_key, tokens, await self._scorer.read_counts(tokens))
        return CheckedMessage(message_key, tokens, check.probability, str(check.verdict))

    async def _learn_and_report(
        self, subject: LearnableMessage, label: str | None, source: str, actor: str
    ) -> Lesson:
        try:
            taught = await self._tokenize_subject(subject)
            lesson = await self._learn_one(taught, label, LessonSource(source, actor))
        except Exception as error:
            self.parts.observer.feedback_failed(label, source)
            if isinstance(error, StoreRefuses):
                self.parts.observer.store_refused()
            raise
        self.parts.observer.feedback_taken(lesson, source, actor)
        return lesson

    async def _withdraw_autolearned(self, key: str) -> str | None:
        """What a person says of a message replaces what was learned of it without people."""
        return await self.parts.autolearn_layer.withdraw(key) if self.parts.autolearn_layer else None

    async def _change_entry(
        self, key: str, tokens: Tokens, label: str | None, lesson_source: LessonSource
    ) -> Lesson:
        """Bring the ledger's entry of the message to ``label`` (None: no entry)."""
        reading = await self._scorer.read_counts(tokens)
        before = self._scorer.check(key, tokens, reading)
        step: PlannedLesson | None = None
        # Most of what is learned is new: so it is taken to be, and else the answer is what the ledger holds.
        entry = None if label else await self.parts.model.entry(key)
        for _ in range(_MAX_CONFLICTS):
            if (entry.label if entry else None) == label:
                if step is None or (entry and step.new_entry and entry.version != step.new_entry.version):
                    return await self._unchanged_lesson(entry, label, before)
                # The reply to our own write was lost, and it was made again: it was applied once.
                change = entry.change if entry else await self.parts.model.last_change()
                break
            if entry and not set(entry.tokens).issubset(reading.names):  # of a copy that came another way
                reading = await self._scorer.read_named_counts(self._scorer.count_names(tokens, entry))
                before = self._scorer.check(key, tokens, reading)
            try:
                step = self._planner.plan(
                    TokenizedMessage(key, tokens), label, CountedCheck(before, reading), entry, lesson_source
                )
            except CountsFull:
                if entry or (entry := await self.parts.model.entry(key)) is None:
                    raise
                continue
            found = await self.parts.model.commit_lesson(key, entry, step.new_entry, step.note)
            if isinstance(found, bytes):
                change = found
                break
            entry = found.entry
        else:
            raise StoreUnavailable(f"message {key} is being changed by others all the time")
        await self.parts.counts.wait_until_applied(change)
        return Lesson(step.outcome, step.label, before, await self._check_after(step, tokens))

    async def _check_after(self, step: PlannedLesson, tokens: Tokens) -> Check:
        """What is thought of the message once the step was made."""
        if self.parts.autolearn_layer or not self._scorer.predicts_exactly:
            return self._scorer.check(step.after.id, tokens, await self._scorer.read_counts(tokens))
        _, totals = await self.parts.counts.look_up(())
        return self._scorer.decide_again(step.after, totals, await self._scorer.first_scores())

    async def _unchanged_lesson(self, entry: LedgerEntry | None, label: str | None, before: Check) -> Lesson:
        """It is so already. A repeat after a lost reply ends here too, so the mirror must have it as well."""
        if entry is None:
            return Lesson(LessonOutcome.UNKNOWN, label, before, before)
        await self.parts.counts.wait_until_applied(entry.change)
        return Lesson(LessonOutcome.ALREADY, label, before, before)

    async def _tokenize_subject(self, subject: LearnableMessage) -> TokenizedMessage:
        if isinstance(subject, CheckedMessage):
            tokens = subject.tokens
        else:
            tokens, _ = await self._tokenize(subject, time.perf_counter())
        former = None if isinstance(subject, CheckedMessage) else subject.former_key
        return TokenizedMessage(
            subject.key, tokens, former
        )  # only now: whoever asks for the key first takes it apart

    async def _tokenize(self, message: Message, asked: float) -> tuple[Tokens, CheckSeconds]:
        """Its tokens, and the seconds of each stage; ``asked`` was the moment from which it waited."""
        if len(message.raw) > _THREAD_BYTES:
            return await asyncio.to_thread(self._tokenize_now, message, asked)
        return self._tokenize_now(message, asked)

    def _tokenize_now(self, message: Message, asked: float) -> tuple[Tokens, CheckSeconds]:
        started = time.perf_counter()
        message.key  # noqa: B018 - parses the parts and computes the key, both kept by the message
        parsed = time.perf_counter()
        tokens = self.parts.tokenizer.tokenize(message)
        ended = time.perf_counter()
        return tokens, CheckSeconds(started - asked, parsed - started, ended - parsed)
