"""The filter with its three verbs, check, learn and unlearn, and the explanation of a message by its id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from nbstream.bayes.kinds import kind_of, label_of
from nbstream.bayes.lesson_weight import insisted_weights
from nbstream.errors import CountsFull, StoreIncompatible, StoreRefuses
from nbstream.filter.bulk import BulkLearner, BulkRequest
from nbstream.filter.group_commit import GroupCommit
from nbstream.filter.known_counts import KnownCounts
from nbstream.filter.lesson_batch import LessonBatches, WantedLesson
from nbstream.filter.lesson_plan import CountedCheck, LessonPlanner
from nbstream.filter.message_counts import count_names
from nbstream.filter.results import CheckSeconds, Contradiction, Lesson, LessonOutcome
from nbstream.filter.scorer import decide_check
from nbstream.policy.lesson_source import Insistence, LessonSource
from nbstream.store.model.commit import Settled, commit_planned
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokenizer import TokenizedMessage, Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from nbstream.bayes.kinds import KindScores
    from nbstream.filter.bulk import LabelledTokens
    from nbstream.filter.lesson_plan import PlannedLesson
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import Check, FilterPolicy
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.sources import LessonStore
    from nbstream.mail.message import Message
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.explanation import Explanation
    from nbstream.policy.recipient_rules import RecipientTreatment
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.checked_messages import RecentMessages

_THREAD_BYTES = 64 * 1024
"""Larger messages are tokenized in a thread: other work then waits for a switch of threads only."""

LearnableMessage: TypeAlias = "Message | CheckedMessage | TokenizedMessage"
"""What can be learned: a message, what is remembered of a checked message, or the tokens of a message."""


@dataclass(frozen=True, slots=True)
class LabelledMessage:
    """A message and the class that it is learned into, ham, spam or a kind; None takes it back."""

    message: LearnableMessage
    label: str | None


class Filter:
    """Checks messages, and learns what people say of them, with the counts of one model."""

    def __init__(self, parts: FilterParts, policy: FilterPolicy) -> None:
        self.parts = parts
        self.policy = policy
        self._scorer = parts.make_scorer(policy)
        self._planner = LessonPlanner(self._scorer, parts)
        self._batches = LessonBatches(parts, self._scorer, self._planner)
        self._make_known_counts = partial(KnownCounts, self._scorer.read_counts, parts.make_name_numbers)
        self._group_commit = GroupCommit(self._batches, self._make_known_counts, parts.lesson_groups)

    @property
    def own_model(self) -> str:
        """The name of the own model: empty for the common one, ``OWN_MODEL_UNAVAILABLE`` for one not loaded."""
        return self.parts.own_model

    def with_policy(self, policy: FilterPolicy) -> Filter:
        """Make a filter of the same parts with another policy.

        Checks and lessons that have begun end with the policy that they began with.
        """
        return Filter(self.parts, policy)

    async def check(self, message: Message) -> Check:
        """Score ``message`` by the default policy, and report the check. Raises what ``score`` raises."""
        check, seconds = await self.score(message)
        self.report(check, seconds)
        return check

    async def score(self, message: Message) -> tuple[Check, CheckSeconds]:
        """Return the check of ``message`` by the default policy, and how long its stages took.

        It is reported once it is decided. Raises ``StoreUnavailable`` while no counts are loaded.
        """
        requested = time.perf_counter()
        if self.parts.check_queue and len(message.raw) <= _THREAD_BYTES:
            await self.parts.check_queue.wait_for_turn()
        taken, seconds = await self._take_apart(message, requested)
        started = time.perf_counter()
        check = await self._scorer.check_now(taken.key, taken.tokens)
        if self.parts.canaries and self.parts.canaries.redeem(check.id):
            check = check.as_canary()
        return check, CheckSeconds(seconds.wait, seconds.tokenize, time.perf_counter() - started)

    async def score_tokens(self, message_key: str, tokens: Tokens) -> Check:
        """Return the check of a message that was tokenized before, by the default policy.

        It waits for its turn like any other check: one message may have very many of them. Raises
        ``StoreUnavailable`` while no counts are loaded.
        """
        if self.parts.check_queue:
            await self.parts.check_queue.wait_for_turn()
        return await self._scorer.check_now(message_key, tokens)

    def report(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None = None) -> None:
        """Report the check of a message, as it is decided, to the observer; that of a canary is not reported.

        The observer gets the names of the tokens alone, and may call ``build_envelope`` later.
        """
        if not check.is_canary:
            self.parts.observer.checked(check.without_words(), seconds, build_envelope)

    async def learn(
        self,
        message: LearnableMessage,
        label: str,
        source: str,
        actor: str = "",
        insistence: Insistence = Insistence.NEVER,
        insisted_version: str | None = None,
    ) -> Lesson:
        """Learn that ``message`` is ``label``: ham, spam or a kind. A label unlike the last relearns it.

        The same label again changes nothing, unless the check still contradicts it and ``insistence`` allows to
        insist: then the message gets more weight, up to ``MAX_ENTRY_WEIGHT``. ``source``,
        ``actor``, ``insistence`` and ``insisted_version`` are those of ``LessonSource``: with a version only the
        ledger entry of that version and label is insisted on, and nothing is learned or relearned. Raises
        ``StoreUnavailable``; nothing is half done then, and the call may be repeated.
        """
        self.require_class(label)
        lesson_source = LessonSource(source, actor, insistence, insisted_version)
        return await self._learn_and_report(message, label, lesson_source)

    async def wait_for_lesson_groups(self, seconds: float) -> None:
        """Return when the lessons that are taught together are made, or after ``seconds``.

        A group goes on when those who have sent its lessons have gone. It is waited for before the store closes.
        """
        if self.parts.lesson_groups:
            await asyncio.wait(self.parts.lesson_groups, timeout=seconds)

    async def unlearn(self, message: LearnableMessage, source: str, actor: str = "") -> Lesson:
        """Take back exactly what was learned of ``message``. Raises ``StoreUnavailable``."""
        return await self._learn_and_report(message, None, LessonSource(source, actor))

    async def learn_many(
        self,
        messages: AsyncIterable[LabelledMessage],
        lesson_source: LessonSource,
        report_result: Callable[[Lesson | StoreIncompatible], object],
    ) -> None:
        """Learn or unlearn many messages, each by its own label, as if one after another.

        ``report_result`` is called with each lesson in order, or with the error where the ledger entry of a
        message cannot be read. The observer of the filter gets no reports. See ``bulk`` for how it is done. Raises
        ``StoreUnavailable``; some of the messages that were not reported by then may have been learned, each as a
        whole, and all messages may be taught again. Raises ``ValueError`` at a label that is no class here.
        """
        bulk = BulkLearner(self.parts.model, self._batches, self._make_known_counts(), self._learn_one)
        async with aclosing(self._tokenize_all(messages)) as tokenized:
            await bulk.learn_all(tokenized, BulkRequest(lesson_source, report_result))

    def require_class(self, class_name: str) -> None:
        """Raise ``ValueError`` unless the class is one of this model."""
        if class_name not in self.policy.class_names:
            raise ValueError(f"label {class_name!r} is none of {', '.join(self.policy.class_names)}")

    async def _tokenize_all(
        self, messages: AsyncIterable[LabelledMessage]
    ) -> AsyncGenerator[LabelledTokens, None]:
        async for labelled in messages:
            if labelled.label is not None:
                self.require_class(labelled.label)
            yield await self._tokenize_learnable(labelled.message), labelled.label
            if not isinstance(labelled.message, TokenizedMessage):
                await asyncio.sleep(0)  # the batch that is being written can go on

    async def _learn_one(self, wanted: WantedLesson, entry: LedgerEntry | None = None) -> Lesson:
        """Teach one lesson by itself; ``entry`` is the ledger entry of its message, where it is known."""
        layer, message, label = self.parts.autolearn_layer, wanted.message, wanted.class_name
        if layer and self.parts.parents and label is not None:
            await layer.note_user_label(message.key)  # before the lesson: a repeat may change nothing
        withdrawn_label = await self._withdraw_autolearned(message.key)
        lesson = await self._change_entry(wanted, entry)
        # Again, since the same message may have been autolearned in between.
        withdrawn_label = await self._withdraw_autolearned(message.key) or withdrawn_label
        return lesson.with_withdrawn_label(withdrawn_label) if withdrawn_label else lesson

    async def decide_for_treatment(self, check: Check, treatment: RecipientTreatment) -> Check:
        """Decide a check again by the policy of a treatment, one of ``FilterPolicy.other_policies``.

        The answer to a canary is the same for all. Raises ``StoreUnavailable`` while no counts are loaded.
        """
        if check.is_canary:
            return check
        thresholds = self._scorer.thresholds(treatment.policy, await self._scorer.prequential_scores())
        return replace(decide_check(check, thresholds), policy=treatment.name)

    async def recall(self, message_key: str) -> CheckedMessage | None:
        """Return what is known of a message by its key: as it was checked, else as it was learned, else None.

        The ledger has the tokens of a learned message, but neither its attributes nor its numbers. Raises
        ``StoreUnavailable``.
        """
        checked_messages = self.parts.checked_messages
        checked = await checked_messages.recall(message_key) if checked_messages else None
        if checked:
            return checked
        entry = await self.parts.model.entry(message_key)
        if entry is None:
            return None
        tokens = Tokens.from_all(entry.tokens)
        check = await self._scorer.check_now(message_key, tokens)
        return CheckedMessage(message_key, tokens, check.probability, str(check.verdict))

    async def _learn_and_report(
        self, message: LearnableMessage, label: str | None, lesson_source: LessonSource
    ) -> Lesson:
        try:
            tokenized = await self._tokenize_learnable(message)
            wanted = WantedLesson(tokenized, label, lesson_source)
            learn = self._learn_in_group if self._joins_group(wanted) else self._learn_one
            lesson = await learn(wanted)
        except Exception as error:
            self.report_failed_feedback(label, lesson_source.source, error)
            raise
        self.parts.observer.feedback_taken(lesson, lesson_source.source)
        return lesson

    def _joins_group(self, wanted: WantedLesson) -> bool:
        """Whether a lesson may be planned without its ledger entry; those of own models are too few to wait."""
        return wanted.class_name is not None and wanted.source.insisted_version is None and not self.parts.parents

    async def _learn_in_group(self, wanted: WantedLesson) -> Lesson:
        learned = await self._group_commit.learn(wanted, self._learn_one)
        return learned if isinstance(learned, Lesson) else await self._planned_lesson(learned, wanted)

    def report_failed_feedback(self, label: str | None, source: str, error: Exception) -> None:
        """Report that ``label`` of one message could not be learned; both names are as in ``learn``."""
        self.parts.observer.feedback_failed(label and label_of(label), source)
        if isinstance(error, StoreRefuses):
            self.parts.observer.store_refused()

    async def _withdraw_autolearned(self, key: str) -> str | None:
        """Take back what was autolearned of the message and return its label: a person's label replaces it.

        The layer is everybody's: what is taught to an own model takes nothing back there. It keeps the message
        from becoming kept mail, which is mail that nobody has labelled.
        """
        layer = self.parts.autolearn_layer
        return await layer.withdraw(key) if layer and not self.parts.parents else None

    async def _change_entry(self, wanted: WantedLesson, entry: LedgerEntry | None) -> Lesson:
        """Change the ledger entry of the message to the wanted class, or remove it where that is None."""
        message, label, lesson_source = wanted.message, wanted.class_name, wanted.source
        model, seen = self.parts.model, lesson_source.insisted_version
        before = await self._check_with_counts(message, None)

        async def plan(entry: LedgerEntry | None, former: PlannedLesson | None) -> PlannedLesson | Settled[Lesson]:
            if seen is None and label != (entry.class_name if entry else None):
                try:
                    return await self._plan_label(message, label, before, entry, lesson_source)
                except CountsFull:
                    written = None if entry else await model.entry(message.key)
                    if written is None:
                        raise
                    await model.confirm()  # an earlier attempt may have written it
                    return await plan(written, former)
            if entry is None:
                await model.confirm()  # an earlier attempt may have removed it
                taught_label, kind = (label_of(label), kind_of(label)) if label else (None, "")
                return Settled(Lesson(LessonOutcome.UNKNOWN, taught_label, before.check, before.check, kind=kind))
            if seen is None:  # of two who insist at the same moment, one is enough
                may_insist = former is None or former.outcome is not LessonOutcome.INSISTED
            else:
                may_insist = (entry.class_name, entry.version) == (label, seen)
            return await self._plan_repeat(message, entry, lesson_source, may_insist=may_insist)

        # Most messages that are learned are new. Therefore no entry is looked up: if there is one, the answer to
        # the first write says so.
        if entry is None and (label is None or seen is not None):
            entry = await model.entry(message.key)
        wait_until_applied = self.parts.counts.wait_until_applied
        planned = await commit_planned(model.commit_lesson, message.key, entry, plan, wait_until_applied)
        if isinstance(planned, Settled):
            return planned.result
        return await self._planned_lesson(planned, wanted)

    async def _plan_label(
        self,
        message: TokenizedMessage,
        label: str | None,
        before: CountedCheck,
        entry: LedgerEntry | None,
        lesson_source: LessonSource,
    ) -> PlannedLesson:
        """Plan the change of ``entry`` to a label that it does not have. Raises ``CountsFull``."""
        if entry and not set(entry.tokens).issubset(before.counts.names):  # of a copy that took another way
            before = await self._check_with_counts(message, entry)
        return self._planner.plan(message, label, before, entry, lesson_source)

    async def _check_with_counts(self, message: TokenizedMessage, entry: LedgerEntry | None) -> CountedCheck:
        """Return the check of the message and its counts, which include those that ``entry`` has added to."""
        counts = await self._scorer.read_counts(count_names(message.tokens, entry))
        return CountedCheck(self._scorer.check(message.key, message.tokens, counts), counts)

    async def _plan_repeat(
        self, message: TokenizedMessage, entry: LedgerEntry, lesson_source: LessonSource, *, may_insist: bool
    ) -> PlannedLesson | Settled[Lesson]:
        """Plan what the label that ``entry`` has already does when it is given again: more weight, or nothing."""
        # A repeat after a lost reply ends here too. Therefore the mirror must have the change in this case as
        # well, and only then it can be seen whether the verdict contradicts the label.
        await self.parts.counts.wait_until_applied(entry.change)
        before = await self._check_with_counts(message, entry)
        contradiction = self._contradiction(before.check, entry, lesson_source)
        if may_insist and contradiction and contradiction.wait_seconds == 0:
            # A retry must not fail where nothing has to be written: the message has this label already.
            with suppress(CountsFull):
                planned = self._planner.plan_insisted(message, before, entry, lesson_source)
                if planned:
                    return planned
        return Settled(
            Lesson(LessonOutcome.ALREADY, entry.label, before.check, before.check, contradiction, kind=entry.kind)
        )

    def _contradiction(
        self, check: Check, entry: LedgerEntry, lesson_source: LessonSource
    ) -> Contradiction | None:
        """Return how ``lesson_source`` may insist on the label of the entry, where the check contradicts it."""
        if not check.contradicts(entry.label):
            return None
        seconds_since = self.parts.clock() - entry.learned_at
        wait_seconds = lesson_source.seconds_until_insisting(entry.source, entry.actor, seconds_since)
        return Contradiction(not insisted_weights(entry.weight), wait_seconds)

    async def _planned_lesson(self, planned: PlannedLesson, wanted: WantedLesson) -> Lesson:
        """Return the planned lesson once it is made."""
        after, entry = await self._check_after(planned, wanted.message.tokens), planned.new
        contradiction = self._contradiction(after, entry, wanted.source) if entry else None
        return planned.result(after, contradiction)

    async def _check_after(self, planned: PlannedLesson, tokens: Tokens) -> Check:
        """Return the check of the message once the planned lesson is made."""
        if planned.counts_after.autolearned or self.parts.parents:
            return await self._scorer.check_now(planned.after.id, tokens)
        _, totals = await self.parts.counts.look_up(())
        return self._scorer.decide_again(planned.after, totals, await self._scorer.prequential_scores())

    async def _tokenize_learnable(self, message: LearnableMessage) -> TokenizedMessage:
        if isinstance(message, TokenizedMessage):
            return message
        if isinstance(message, CheckedMessage):
            return TokenizedMessage(message.key, message.tokens)
        tokenized, _ = await self._take_apart(message, time.perf_counter())
        return tokenized

    async def _take_apart(self, message: Message, requested: float) -> tuple[TokenizedMessage, CheckSeconds]:
        """Return the key, the tokens and the seconds of each stage; the message waited since ``requested``."""
        if len(message.raw) > _THREAD_BYTES:
            async with self.parts.large_messages:
                return await asyncio.to_thread(self._take_apart_now, message, requested)
        return self._take_apart_now(message, requested)

    def _take_apart_now(self, message: Message, requested: float) -> tuple[TokenizedMessage, CheckSeconds]:
        started = time.perf_counter()
        taken = self.parts.tokenizer.take_apart(message)
        return taken, CheckSeconds(started - requested, time.perf_counter() - started)


@dataclass(frozen=True, slots=True)
class MessageRecord:
    """The two explanations of a message, and what is stored of it.

    ``checked`` is the message as it was checked, ``entry`` its ledger entry. At least one of them is there. An
    entry that ``has_most_weight`` cannot be insisted on. ``kind`` is how probable each kind is now; None for spam,
    and where no kinds are configured.
    """

    id: str
    explanation_now: Explanation
    explanation_at_check: Explanation | None
    checked: CheckedMessage | None
    entry: LedgerEntry | None
    has_most_weight: bool = False
    kind: KindScores | None = None


async def find_message_record(
    message_key: str, checked_messages: RecentMessages, model: LessonStore, scorer: Scorer
) -> MessageRecord | None:
    """Return what is remembered and learned of a message, with its explanation by ``scorer`` now.

    Returns None for a message that is neither remembered nor learned. Raises ``StoreUnavailable``.
    """
    checked, explanation = await checked_messages.recall_with_explanation(message_key) or (None, None)
    entry = await model.entry(message_key)
    if checked:
        tokens = checked.tokens
    elif entry:
        tokens = Tokens.from_all(entry.tokens)
    else:
        return None
    check = await scorer.check_now(message_key, tokens)
    has_most_weight = entry is not None and not insisted_weights(entry.weight)
    return MessageRecord(
        message_key, check.explain(time.time()), explanation, checked, entry, has_most_weight, check.kind
    )
