"""The filter: one object with three verbs, check, learn and unlearn. All doors use it and nothing below it.

Rules: check touches no network; learn and unlearn return only when the change is durable in Redis and this
process's own mirror has it; both may be repeated, the second time changes nothing and says so.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from nbstream.bayes.calibration import BINS
from nbstream.bayes.counts import CLASSES
from nbstream.bayes.event_models import Counted
from nbstream.errors import StoreUnavailable
from nbstream.policy.verdict import ModelState, Thresholds, Verdict, decide
from nbstream.store.ledger import Entry

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.calibration import Calibration
    from nbstream.bayes.classifier import Classifier, Score
    from nbstream.bayes.clues import Clue
    from nbstream.bayes.counts import Sums, Totals
    from nbstream.mail.message import Message
    from nbstream.tokens.tokenizer import Tokenizer, Tokens

_MAX_CONFLICTS = 20
_THREAD_BYTES = (
    64 * 1024
)  # larger messages are taken apart in a thread: others wait for a switch, not for the whole


class CountSource(Protocol):
    """Where counts are read: the mirror in a daemon, Redis itself in a one-shot command."""

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """The counts of ``tokens`` or sums, shape (n, classes), and the totals."""

    async def vocabulary(self) -> NDArray[np.int64]:
        """The counts of all tokens, without sums; the very same array until one of them changes."""

    async def applied(self, change: bytes) -> None:
        """Return when ``look_up`` shows the change of that stream id; raises ``StoreUnavailable``."""


class Teachable(Protocol):
    """Where lessons are kept: a model in Redis, or one in memory. What each promises is said by ``Model``."""

    async def entry(self, message_key: str) -> Entry | None:
        """What the message was learned as, or None."""

    async def replace(self, message_key: str, old: Entry | None, new: Entry | None) -> bytes | None:
        """Take back ``old`` and add ``new``; the change's stream id, or None where ``old`` is not what is kept."""

    async def last_change(self) -> bytes:
        """The stream id of the last change; empty before the first."""


class Outcome(StrEnum):
    """What feedback did."""

    LEARNED = "learned"
    RELEARNED = "relearned"
    ALREADY = "already"
    UNLEARNED = "unlearned"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one check: ``score`` is in nats before calibration, ``probability`` is P(spam)."""

    id: str
    verdict: Verdict
    probability: float
    score: float
    reason: str
    state: ModelState
    clues: tuple[Clue, ...]


@dataclass(frozen=True, slots=True)
class Lesson:
    """The result of one piece of feedback; the checks are as the model was before and is after it."""

    outcome: Outcome
    label: str | None
    before: Check
    after: Check


class Observer(Protocol):
    """What the filter reports while it works; metrics are one of its readers."""

    def checked(self, check: Check, stages: Mapping[str, float]) -> None:
        """One message was checked; seconds by stage (parse, tokenize, score)."""

    def taught(self, lesson: Lesson, source: str) -> None:
        """One message's feedback was taken, or changed nothing."""

    def teaching_failed(self, label: str | None, source: str) -> None:
        """One message's feedback could not be stored."""


class Silent:
    """An observer that reports to nobody."""

    def checked(self, check: Check, stages: Mapping[str, float]) -> None:
        """Report nothing."""

    def taught(self, lesson: Lesson, source: str) -> None:
        """Report nothing."""

    def teaching_failed(self, label: str | None, source: str) -> None:
        """Report nothing."""


@dataclass(frozen=True, slots=True)
class Params:
    """The thresholds, and how many labelled messages of each class a model needs before it decides."""

    thresholds: Thresholds
    min_learned: Mapping[str, int]


class Filter:
    """Checks messages and learns from people, over one model."""

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
    ) -> None:
        self._tokenizer = tokenizer
        self._classifier = classifier
        self._calibration = calibration
        self._model = model
        self._counts = counts
        self._params = params
        self._observer = observer or Silent()

    async def check(self, message: Message) -> Check:
        """Score ``message`` and decide. Raises ``StoreUnavailable`` while no counts are loaded."""
        tokens, stages = await self._take_apart(message)
        started = time.perf_counter()
        check, *_ = await self._check(message, tokens)
        self._observer.checked(check, {**stages, "score": time.perf_counter() - started})
        return check

    async def learn(self, message: Message, label: str, source: str) -> Lesson:
        """Learn that ``message`` is ``label`` ("spam" or "ham"); the other label than before relearns it.

        ``source`` is the door it came through. Raises ``StoreUnavailable``; nothing is half done then, and the
        same call may be made again.
        """
        if label not in CLASSES:
            raise ValueError(f"label {label!r} is none of {', '.join(CLASSES)}")
        return await self._teach(message, label, source)

    async def unlearn(self, message: Message, source: str) -> Lesson:
        """Take back exactly what ``message`` was learned as. Raises ``StoreUnavailable``."""
        return await self._teach(message, None, source)

    async def _teach(self, message: Message, label: str | None, source: str) -> Lesson:
        try:
            lesson = await self._change(message, label, source)
        except Exception:
            self._observer.teaching_failed(label, source)
            raise
        self._observer.taught(lesson, source)
        return lesson

    async def _change(self, message: Message, label: str | None, source: str) -> Lesson:
        """Bring the ledger's entry of ``message`` to ``label`` (None: no entry)."""
        tokens, _ = await self._take_apart(message)
        before, score, totals = await self._check(message, tokens)
        version = secrets.token_hex(8)
        known: Entry | None = None
        written: Outcome | None = None
        for _ in range(_MAX_CONFLICTS):
            entry = await self._model.entry(message.key)
            if (entry.label if entry else None) == label:
                if written is None or (entry and entry.version != version):
                    return await self._unchanged(entry, label, before)
                # The reply to our own write was lost, and it was made again: it was applied once.
                change = entry.change if entry else await self._model.last_change()
                break
            known, written = entry, _outcome(entry, label)
            if label:
                weight, sums = self._lesson(tokens, score, label, totals, known)
                first_score = known.score if known else score.log_odds
                new = Entry(version, label, weight, tokens.all, time.time(), source, first_score, sums)
            else:
                new = None
            stored = await self._model.replace(message.key, known, new)
            if stored is not None:
                change = stored
                break
        else:
            raise StoreUnavailable(f"message {message.key} is being changed by others all the time")
        await self._counts.applied(change)
        after, *_ = await self._check(message, tokens)
        return Lesson(written, label or (known.label if known else None), before, after)

    async def _unchanged(self, entry: Entry | None, label: str | None, before: Check) -> Lesson:
        """It is so already. A repeat after a lost reply ends here too, so the mirror must have it as well."""
        if entry is None:
            return Lesson(Outcome.UNKNOWN, label, before, before)
        await self._counts.applied(entry.change)
        return Lesson(Outcome.ALREADY, label, before, before)

    def _lesson(
        self, tokens: Tokens, score: Score, label: str, totals: Totals, known: Entry | None
    ) -> tuple[int, tuple[tuple[bytes, int], ...]]:
        """The weight and the sums to learn; of a message that is ``known``, its first score counts, as before."""
        first: Sums = self._calibration.lesson(score.log_odds, totals)
        if known:
            first = [each for each in known.sums if each[0] in BINS]
        weight, sums = self._classifier.lesson(tokens, score, label, totals, certain=known is not None)
        return weight, (*first, *sums)

    async def _check(self, message: Message, tokens: Tokens) -> tuple[Check, Score, Totals]:
        names = tokens.all
        rows, totals = await self._counts.look_up((*names, *BINS, *self._classifier.sums))
        vocabulary = await self._counts.vocabulary() if self._classifier.needs_vocabulary else None
        bins, sums = rows[len(names) : len(names) + len(BINS)], rows[len(names) + len(BINS) :]
        score = self._classifier.score(tokens, Counted(rows[: len(names)], sums, totals, vocabulary))
        probability = self._calibration.probability(score.log_odds, bins, totals)
        state = ModelState(dict(zip(CLASSES, totals.messages, strict=True)), self._params.min_learned)
        verdict, reason = decide(probability, self._params.thresholds, state)
        check = Check(message.key, verdict, probability, score.log_odds, reason, state, score.clues)
        return check, score, totals

    async def _take_apart(self, message: Message) -> tuple[Tokens, dict[str, float]]:
        if len(message.raw) > _THREAD_BYTES:
            return await asyncio.to_thread(self._take_apart_now, message)
        return self._take_apart_now(message)

    def _take_apart_now(self, message: Message) -> tuple[Tokens, dict[str, float]]:
        started = time.perf_counter()
        message.key  # noqa: B018 - parses the parts and computes the key, both kept by the message
        parsed = time.perf_counter()
        tokens = self._tokenizer.tokenize(message)
        return tokens, {"parse": parsed - started, "tokenize": time.perf_counter() - parsed}


def _outcome(known: Entry | None, label: str | None) -> Outcome:
    if label is None:
        return Outcome.UNLEARNED
    return Outcome.LEARNED if known is None else Outcome.RELEARNED
