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
from nbstream.mail import header_fields
from nbstream.mail.message import Message
from nbstream.policy.verdict import Thresholds
from nbstream.policy.verdict_fields import VERDICT_FIELDS
from nbstream.tokens.tokenizer import Tokenizer

if TYPE_CHECKING:
    from nbstream.errors import StoreIncompatible
    from nbstream.evaluation.streams import Labelled
    from nbstream.filter import Autolearner, Filter, Teachable
    from nbstream.mail.mime import Limits
    from nbstream.policy.verdict import Verdict
    from nbstream.store.model.history import Note
    from nbstream.store.model.learn_script import Replacement
    from nbstream.store.model.ledger import Entry, Held
    from nbstream.tokens.tokenizer import Params as TokenizerParams
    from nbstream.tokens.tokenizer import Tokens

_SOURCE = "evaluate"


@dataclass(frozen=True, slots=True)
class Params:
    """The regime by name, the share of the labels that is flipped before it is learned, and the seed of which."""

    regime: str = "immediate"
    label_noise: float = 0.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Row:
    """One message: its true label, and what the filter said before the label was learned."""

    label: str
    score: float
    probability: float
    verdict: Verdict
    thresholds: Thresholds = field(default_factory=Thresholds)


@dataclass(frozen=True, slots=True)
class Result:
    """The rows in stream order, and the seconds of checking and learning, without reading the stream.

    ``autolearned`` messages were learned without a label.
    """

    rows: tuple[Row, ...]
    seconds: float
    autolearned: int = 0

    @property
    def thresholds(self) -> Thresholds:
        """Those that decided the last message."""
        return self.rows[-1].thresholds if self.rows else Thresholds()


class RememberingTokenizer(Tokenizer):
    """Keeps a message's tokens for as long as the message is kept: they are asked for to score and to learn.

    On trec07p-20k a quarter of the time.
    """

    def __init__(self, params: TokenizerParams) -> None:
        super().__init__(params)
        self._known: WeakKeyDictionary[Message, Tokens] = WeakKeyDictionary()

    def tokenize(self, message: Message) -> Tokens:
        """The tokens of ``message``."""
        tokens = self._known.get(message)
        if tokens is None:
            tokens = self._known[message] = super().tokenize(message)
        return tokens


class Tally:
    """A model that counts the messages learned into it, and their tokens."""

    def __init__(self, model: Teachable) -> None:
        self._model = model
        self.learned = 0
        self.tokens = 0

    async def entry(self, message_key: str) -> Entry | None:
        """What the message was learned as, or None."""
        return await self._model.entry(message_key)

    async def entries(self, message_keys: Sequence[str]) -> Sequence[Entry | StoreIncompatible | None]:
        """What each of these messages was learned as, None, or why that cannot be read."""
        return await self._model.entries(message_keys)

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> Mapping[str, str]:
        """As of the model."""
        return await self._model.ledger_keys(former_keys)

    async def replace_many(self, changes: Sequence[Replacement]) -> list[bytes | Held]:
        """Replace each, one after another."""
        return [await self.replace(each.message_key, each.old, each.new, each.note) for each in changes]

    async def replace(self, message_key: str, old: Entry | None, new: Entry | None, note: Note) -> bytes | Held:
        """Replace as the model does, and count what was learned."""
        change = await self._model.replace(message_key, old, new, note)
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
    stream: Iterable[Labelled],
    params: Params,
    limits: Limits,
    autolearner: Autolearner | None = None,
) -> Result:
    """Score and learn ``stream``. Raises what the filter and the reading of the stream raise.

    ``autolearner`` is an observer of the filter. It learns of a message after the person has spoken or not; in a
    daemon that may be the other way round, and comes to the same, since a person's label replaces.
    """
    regime, chance = regimes.named(params.regime), random.Random(params.seed)  # noqa: S311 - no secret
    rows: list[Row] = []
    seconds, autolearned = 0.0, 0
    for each in stream:
        # Drawn for every message, learned or not, so that the same ones are flipped in every regime.
        label = _other(each.label) if chance.random() < params.label_noise else each.label
        started = time.perf_counter()
        message = _message(each.content, limits)
        check = await spam_filter.check(message)
        for case in regime.due(regimes.Case(message, label, check)):
            await spam_filter.learn(case.message, case.label, _SOURCE)
        if autolearner:
            autolearned += await autolearner.learn_waiting()
        seconds += time.perf_counter() - started
        rows.append(Row(each.label, check.score, check.probability, check.verdict, check.thresholds))
        await _let_cancel()
    return Result(tuple(rows), seconds, autolearned)


def _message(content: bytes | str, limits: Limits) -> Message:
    if isinstance(content, str):
        return Message.of_text(content, limits)
    return Message(header_fields.strip(header_fields.canonical(content), VERDICT_FIELDS), limits)


def _other(label: str) -> str:
    return "ham" if label == "spam" else "spam"


async def _let_cancel() -> None:
    """Let Ctrl-C come in. Over counts in memory nothing else waits, and redis-py may have lost it before.

    See ``nbstream.store.replica.mirror`` for the latter.
    """
    await asyncio.sleep(0)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
