"""Test, then train: each message of a stream is scored by the filter before its label is learned.

Rules: the filter is the daemon's own, and a message reaches it as mail does, without verdict headers from outside;
a row of the result is what was known before the label, and keeps the true label whatever was learned.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from nbstream.evaluation import regimes
from nbstream.mail.message import Message
from nbstream.policy.incoming_message import incoming_message
from nbstream.policy.verdict import Thresholds
from nbstream.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nbstream.errors import StoreIncompatible
    from nbstream.evaluation.streams import LabelledContent
    from nbstream.filter import Autolearner, Filter, LessonStore
    from nbstream.mail.mime import MessageLimits
    from nbstream.policy.verdict import Verdict
    from nbstream.store.model.history import LessonNote
    from nbstream.store.model.learn_script import LessonCommit
    from nbstream.store.model.ledger import LedgerConflict, LedgerEntry
    from nbstream.tokens.tokenizer import TokenizerOptions, Tokens

_SOURCE = "evaluate"


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """The regime by name, the share of the labels that is flipped before it is learned, and the seed of which."""

    regime: str = "immediate"
    label_noise: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class EvaluationRow:
    """One message: its true label, and what the filter said before the label was learned."""

    label: str
    score: float
    probability: float
    verdict: Verdict
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """The rows in stream order, and the seconds of checking and learning, without reading the stream.

    ``autolearned`` messages were learned without a label.
    """

    rows: tuple[EvaluationRow, ...]
    seconds: float
    autolearned: int = 0

    @property
    def thresholds(self) -> Thresholds:
        """Those that decided the last message."""
        return self.rows[-1].thresholds if self.rows else Thresholds()


class CachingTokenizer(Tokenizer):
    """Keeps a message's tokens for as long as the message is kept: they are asked for to score and to learn.

    On trec07p-20k a quarter of the time.
    """

    def __init__(self, params: TokenizerOptions) -> None:
        super().__init__(params)
        self._cache: WeakKeyDictionary[Message, Tokens] = WeakKeyDictionary()

    def tokenize(self, message: Message) -> Tokens:
        """The tokens of ``message``."""
        tokens = self._cache.get(message)
        if tokens is None:
            tokens = self._cache[message] = super().tokenize(message)
        return tokens


class LessonCountingStore:
    """A model that counts the messages learned into it, and their tokens."""

    def __init__(self, model: LessonStore) -> None:
        self._model = model
        self.learned = 0
        self.tokens = 0

    async def entry(self, message_key: str) -> LedgerEntry | None:
        """What the message was learned as, or None."""
        return await self._model.entry(message_key)

    async def entries(self, message_keys: Sequence[str]) -> Sequence[LedgerEntry | StoreIncompatible | None]:
        """What each of these messages was learned as, None, or why that cannot be read."""
        return await self._model.entries(message_keys)

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> Mapping[str, str]:
        """As of the model."""
        return await self._model.ledger_keys(former_keys)

    async def commit_lessons(self, changes: Sequence[LessonCommit]) -> list[bytes | LedgerConflict]:
        """Replace each, one after another."""
        return [await self.commit_lesson(each.message_key, each.old, each.new, each.note) for each in changes]

    async def commit_lesson(
        self, message_key: str, old: LedgerEntry | None, new: LedgerEntry | None, note: LessonNote
    ) -> bytes | LedgerConflict:
        """Replace as the model does, and count what was learned."""
        change = await self._model.commit_lesson(message_key, old, new, note)
        if isinstance(change, bytes) and new is not None:
            self.learned += 1
            self.tokens += len(new.tokens)
        return change

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first."""
        return await self._model.last_change()

    @property
    def tokens_per_message(self) -> float | None:
        """The mean number of distinct tokens of what was learned."""
        return self.tokens / self.learned if self.learned else None


async def evaluate(
    spam_filter: Filter,
    stream: Iterable[LabelledContent],
    params: EvaluationOptions,
    limits: MessageLimits,
    autolearner: Autolearner | None = None,
) -> EvaluationResult:
    """Score and learn ``stream``. Raises what the filter and the reading of the stream raise.

    ``autolearner`` is an observer of the filter. It learns of a message after the person has spoken or not; in a
    daemon that may be the other way round, and comes to the same, since a person's label replaces.
    """
    regime, chance = regimes.parse_regime(params.regime), random.Random(params.seed)  # noqa: S311 - no secret
    rows: list[EvaluationRow] = []
    seconds, autolearned = 0.0, 0
    for each in stream:
        # Drawn for every message, learned or not, so that the same ones are flipped in every regime.
        label = _opposite_label(each.label) if chance.random() < params.label_noise else each.label
        started = time.perf_counter()
        message = _parse_message(each.content, limits)
        check = await spam_filter.check(message)
        for case in regime.due_labels(regimes.LabelledCheck(message, label, check)):
            await spam_filter.learn(case.message, case.label, _SOURCE)
        if autolearner:
            autolearned += await autolearner.learn_queued()
        seconds += time.perf_counter() - started
        rows.append(EvaluationRow(each.label, check.score, check.probability, check.verdict, check.thresholds))
        await _allow_cancellation()
    return EvaluationResult(tuple(rows), seconds, autolearned)


def _parse_message(content: bytes | str, limits: MessageLimits) -> Message:
    if isinstance(content, str):
        return Message.from_text(content, limits)
    return incoming_message(content, limits)


def _opposite_label(label: str) -> str:
    return "ham" if label == "spam" else "spam"


async def _allow_cancellation() -> None:
    """Let Ctrl-C come in. Over counts in memory nothing else waits, and redis-py may have lost it before.

    See ``nbstream.store.replica.mirror`` for the latter.
    """
    await asyncio.sleep(0)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
