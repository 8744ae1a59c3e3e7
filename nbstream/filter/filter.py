"""The filter with its three verbs, check, learn and unlearn, and the explanation of a message by its id."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from nbstream.bayes.columns import label_of
from nbstream.bayes.lesson_weight import reinforced_weights
from nbstream.errors import StoreIncompatible, StoreRefuses
from nbstream.filter.lesson_groups import LessonGroups, learn_all
from nbstream.filter.lesson_plan import Feedback
from nbstream.filter.results import CheckSeconds, FeedbackResult
from nbstream.filter.scorer import decide_check
from nbstream.policy.feedback_source import FeedbackSource, Reinforcement
from nbstream.store.model.ledger import entry_of_people
from nbstream.store.recent.checked_messages import CheckedMessage
from nbstream.tokens.tokens import TokenizedMessage, Tokens

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterable

    from nbstream.bayes.kinds import KindScores
    from nbstream.filter.message_counts import LessonStore
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import FilterPolicy
    from nbstream.filter.scorer import Scorer
    from nbstream.mail.message import Message
    from nbstream.policy.check import Check, Explanation
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.recipient_rules import RecipientRule
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.recent.checked_messages import RecentMessages

_THREAD_BYTES = 64 * 1024
"""Larger messages are tokenized in a thread: other work then waits for a switch of threads only."""

LessonMessage: TypeAlias = "Message | CheckedMessage | TokenizedMessage"
"""The message of a lesson: itself, what is remembered of its check, or its tokens."""


class LabelledMessage(NamedTuple):
    """A message and the class that it is learned into, ham, spam or a kind; None takes it back."""

    message: LessonMessage
    label: str | None


class Filter:
    """Checks messages, and learns what people say of them, with the counts of one model."""

    def __init__(self, parts: FilterParts, policy: FilterPolicy) -> None:
        self.parts = parts
        self.policy = policy
        self._scorer = parts.make_scorer(policy)
        self._lesson_groups = LessonGroups(parts, self._scorer)

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
        taken, started, tokenized = await self._tokenize(message)
        check = await self._scorer.check_now(taken.key, taken.tokens)
        if self.parts.canaries and self.parts.canaries.redeem(check.id):
            check = check.as_canary()
        return check, CheckSeconds(started - requested, tokenized - started, time.perf_counter() - tokenized)

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
        message: LessonMessage,
        label: str,
        source: str,
        actor: str = "",
        reinforcement: Reinforcement = Reinforcement.NEVER,
        reinforced_version: str | None = None,
    ) -> FeedbackResult:
        """Learn that ``message`` is ``label``: ham, spam or a kind. A label unlike the last relearns it.

        The same label again changes nothing, unless the check still contradicts it and ``reinforcement`` allows to
        reinforce: then the message gets more weight, up to ``MAX_ENTRY_WEIGHT``. ``source``, ``actor``,
        ``reinforcement`` and ``reinforced_version`` are those of ``FeedbackSource``: with a version only the
        ledger entry of that version and label is reinforced, and nothing is learned or relearned. Raises
        ``StoreUnavailable``; nothing is half done then, and the call may be repeated.
        """
        self.require_class(label)
        feedback_source = FeedbackSource(source, actor, reinforcement, reinforced_version)
        return await self._learn_and_report(message, label, feedback_source)

    async def wait_for_lesson_groups(self, seconds: float) -> None:
        """Return when the lessons that are taught together are made, or after ``seconds``.

        A group goes on when those who have sent its lessons have gone. It is waited for before the store closes.
        """
        if self.parts.lesson_groups:
            await asyncio.wait(self.parts.lesson_groups, timeout=seconds)

    async def unlearn(self, message: LessonMessage, source: str, actor: str = "") -> FeedbackResult:
        """Take back exactly what was learned of ``message``. Raises ``StoreUnavailable``."""
        return await self._learn_and_report(message, None, FeedbackSource(source, actor))

    async def learn_many(
        self,
        messages: AsyncIterable[LabelledMessage],
        feedback_source: FeedbackSource,
        report_result: Callable[[FeedbackResult | StoreIncompatible], object],
    ) -> None:
        """Learn or unlearn many messages, each by its own label, as if one after another.

        ``report_result`` is called with each lesson in order, or with the error where the ledger entry of a
        message cannot be read. The observer of the filter gets no reports. Raises
        ``StoreUnavailable``; some of the messages that were not reported by then may have been learned, each as a
        whole, and all messages may be taught again. Raises ``ValueError`` at a label that is no class here.
        """
        async with aclosing(self._tokenize_all(messages, feedback_source)) as feedbacks:
            await learn_all(self._lesson_groups, feedbacks, report_result)

    def require_class(self, class_name: str) -> None:
        """Raise ``ValueError`` unless the class is one of this model."""
        if class_name not in self.policy.class_names:
            raise ValueError(f"label {class_name!r} is none of {', '.join(self.policy.class_names)}")

    async def _tokenize_all(
        self, messages: AsyncIterable[LabelledMessage], feedback_source: FeedbackSource
    ) -> AsyncGenerator[Feedback, None]:
        async for labelled in messages:
            if labelled.label is not None:
                self.require_class(labelled.label)
            yield Feedback(await self._tokenize_lesson(labelled.message), labelled.label, feedback_source)
            if not isinstance(labelled.message, TokenizedMessage):
                await asyncio.sleep(0)  # the lessons that are being written can go on

    async def decide_by_rule(self, check: Check, rule: RecipientRule) -> Check:
        """Decide a check again by the policy of a rule, one of ``FilterPolicy.other_policies``.

        The answer to a canary is the same for all. Raises ``StoreUnavailable`` while no counts are loaded.
        """
        if check.is_canary:
            return check
        thresholds = self._scorer.thresholds(rule.policy, await self._scorer.prequential_scores())
        return replace(decide_check(check, thresholds), policy=rule.name)

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
        self, message: LessonMessage, label: str | None, feedback_source: FeedbackSource
    ) -> FeedbackResult:
        try:
            tokenized = await self._tokenize_lesson(message)
            lesson = await self._lesson_groups.learn(Feedback(tokenized, label, feedback_source))
        except Exception as error:
            self.report_failed_feedback(label, feedback_source.source, error)
            raise
        self.parts.observer.feedback_taken(lesson, feedback_source.source)
        return lesson

    def report_failed_feedback(self, label: str | None, source: str, error: Exception) -> None:
        """Report that ``label`` of one message could not be learned; both names are as in ``learn``."""
        is_refused = isinstance(error, StoreRefuses)
        self.parts.observer.feedback_failed(label and label_of(label), source, is_refused=is_refused)

    async def _tokenize_lesson(self, message: LessonMessage) -> TokenizedMessage:
        if isinstance(message, TokenizedMessage):
            return message
        if isinstance(message, CheckedMessage):
            return TokenizedMessage(message.key, message.tokens)
        return (await self._tokenize(message))[0]

    async def _tokenize(self, message: Message) -> tuple[TokenizedMessage, float, float]:
        """Return the key and the tokens, and when that began and ended, in seconds of ``time.perf_counter``."""
        if len(message.raw) > _THREAD_BYTES:
            async with self.parts.large_messages:
                return await asyncio.to_thread(self._tokenize_now, message)
        return self._tokenize_now(message)

    def _tokenize_now(self, message: Message) -> tuple[TokenizedMessage, float, float]:
        started = time.perf_counter()
        return self.parts.tokenizer.tokenize(message), started, time.perf_counter()


class MessageRecord(NamedTuple):
    """The two explanations of a message, and what is stored of it.

    ``checked`` is the message as it was checked, ``entry`` the ledger entry that people made; a message that was
    learned without them has an ``automatic_label`` instead. An entry that ``has_most_weight`` cannot be reinforced
    on. ``kind`` is how probable each kind is now; None for spam, and where no kinds are configured.
    """

    id: str
    explanation_now: Explanation
    explanation_at_check: Explanation | None
    checked: CheckedMessage | None
    entry: LedgerEntry | None
    has_most_weight: bool = False
    kind: KindScores | None = None
    automatic_label: str | None = None


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
    taught = entry_of_people(entry)
    has_most_weight = taught is not None and not reinforced_weights(taught.weight)
    automatic_label = entry.label if entry and not taught else None
    now = check.explain(time.time())
    return MessageRecord(
        message_key, now, explanation, checked, taught, has_most_weight, check.kind, automatic_label
    )
