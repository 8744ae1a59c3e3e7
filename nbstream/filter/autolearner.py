"""What is learned without people, in columns of its own: what checks are sure of, and implicit ham.

Rules:

- No check waits for it. Candidates of which a check is sure wait in a bounded queue, and one task learns them.
- A message that a person has labelled is not learned so. A person's label on one that was learned so is a relearn
  like any other: its step takes back exactly what was learned. All entries are in one ledger.
- What a sender list decides is not learned: somebody has said it of the sender, and nobody of the message.
- What is unlike learned spam is not learned: sure is what is sure with its discount. The fewer spam is learned,
  the fewer ham is (``policy.autolearn.is_balanced``).
- A candidate that cannot be learned is dropped and counted. It is not tried again.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from nbstream.bayes.columns import CLASSES
from nbstream.bayes.lesson_weight import lesson_weight
from nbstream.bayes.multinomial import HAM, TokenCounts
from nbstream.errors import NbstreamError, StoreIncompatible
from nbstream.filter.parts import FilterObserver
from nbstream.policy.autolearn import (
    MAX_LEAD,
    WEIGHT_SHARE,
    counts_implicit_ham,
    is_balanced,
    is_kept_ham,
    is_known,
)
from nbstream.policy.verdict import Verdict
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.message_counts import CountSource, LessonStore
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import CheckSeconds, FilterPolicy
    from nbstream.filter.scorer import Scorer
    from nbstream.policy.check import Check
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.settings import AutolearnSettings
    from nbstream.store.recent.checked_messages import CheckedMessage


_log = logging.getLogger(__name__)

MAX_QUEUED = 256  # candidates: the same number as of checks that wait to be remembered, at most 6 MB
AUTOLEARN_SOURCE = "auto"


async def learn_automatically(
    model: LessonStore, counts: CountSource, message_key: str, entry: LedgerEntry, assessment: Assessment
) -> str:
    """Learn a message without people, unless it is learned already.

    ``counts`` show what ``model`` stores, and ``assessment`` is what it says of the message. Returns ``learned``,
    ``human`` or ``already``. Raises ``StoreUnavailable``; the call may be repeated then.
    """
    present = await model.entry(message_key)
    if present is None:
        note = LessonNote(entry.source, entry.actor, assessment, assessment)
        answer = await model.commit_lesson(message_key, None, entry, note)
        if isinstance(answer, bytes):
            await counts.wait_until_applied(answer)
            return "learned"
        present = answer.entry
    return "already" if present and present.is_automatic else "human"


class Autolearner(FilterObserver):
    """Learns the messages of which a check is sure. It is an observer of the filter.

    ``counts`` show what ``model`` stores, and ``scorer`` scores by what people taught alone.
    ``report_outcome`` is called for each candidate with its label and its outcome: ``learned``, ``already``,
    ``known``, ``unbalanced``, ``human``, ``unsure``, ``failed`` or ``dropped``.
    """

    def __init__(
        self,
        model: LessonStore,
        counts: CountSource,
        scorer: Scorer,
        settings: AutolearnSettings,
        report_outcome: Callable[[str, str], object] = lambda _label, _outcome: None,
        max_lead: int = MAX_LEAD,
    ) -> None:
        self._model = model
        self._counts = counts
        self._scorer = scorer
        self._settings = settings
        self._report_outcome = report_outcome
        self._max_lead = max_lead
        self._queue: asyncio.Queue[Check] = asyncio.Queue(MAX_QUEUED)
        self._is_working = True

    def checked(self, check: Check, seconds: CheckSeconds, build_envelope: BuildEnvelope | None) -> None:
        """Queue a checked message as a candidate if the model has learned enough and is sure of the message."""
        label = self._settings.label(check.probability)
        if label is None or check.state.is_learning or (check.listed and check.listed.decides):
            return
        if is_known(label, check.score):
            self._report_outcome(label, "known")
            return
        try:
            self._queue.put_nowait(check)
        except asyncio.QueueFull:
            self._report_outcome(label, "dropped")

    async def run(self) -> None:
        """Learn the candidates in their order, until cancelled."""
        while True:
            await self._learn_candidate(await self._queue.get())

    async def learn_queued(self) -> int:
        """Learn the candidates that wait, and return how many were learned.

        This is for callers that have no task that runs ``run``.
        """
        learned = 0
        while not self._queue.empty():
            learned += await self._learn_candidate(self._queue.get_nowait()) == "learned"
        return learned

    async def _learn_candidate(self, check: Check) -> str:
        label = self._settings.label(check.probability)
        assert label is not None
        try:
            outcome = await self._learn(check, label)
            if not self._is_working:
                _log.info("automatic learning resumes")
            self._is_working = True
        except NbstreamError as error:
            outcome = "failed"
            if self._is_working:  # once, not for each message of an outage
                _log.warning("automatic learning is suspended: %s", error)
            self._is_working = False
        self._report_outcome(label, outcome)
        return outcome

    async def _learn(self, check: Check, label: str) -> str:
        tokens = check.tokens
        counts = await self._scorer.read_counts(tokens.all.names)
        check_by_people = self._scorer.check(check.id, tokens, counts)
        # Implicit ham makes a model ready, too: what people alone taught is too little then to be sure by.
        if check_by_people.state.is_learning or self._settings.label(check_by_people.probability) != label:
            return "unsure"
        automatic = TokenCounts(*await self._counts.look_up_columns(tokens.all.names, automatic=True))
        by_both = self._scorer.score_by_both(tokens, counts, automatic)
        if is_known(label, check_by_people.score) or is_known(label, by_both):
            return "known"
        if not is_balanced(label, automatic.totals.messages, self._max_lead):
            return "unbalanced"
        # No sums: the calibration learns nothing, because what the model says of itself is no evidence.
        weight = round(WEIGHT_SHARE * lesson_weight(check_by_people.score, label))
        column = automatic.totals.columns[CLASSES.index(label)]
        entry = LedgerEntry(
            secrets.token_hex(8), column, weight, tokens.all, time.time(), AUTOLEARN_SOURCE, "", check.score
        )
        assessment = Assessment(check.probability, str(check.verdict))
        return await learn_automatically(self._model, self._counts, check.id, entry, assessment)


# Implicit ham: where people move nothing but spam, what they leave in place counts as ham until they teach ham.
#
# Rules:
#
# - A message is implicit ham when nobody labelled it for some time, in whatever model, and its verdict did not
#   send it to Junk. It is learned as ham without people, once, and a person's label takes that back. What a sender
#   list decided is no implicit ham.
# - Implicit ham is learned, and counts, as long as people have taught fewer ham than the model needs. After that
#   its lessons stay, with the bounded effect that all automatic lessons have, and no more are added.
# - No check waits for it. A walk takes the oldest of the remembered messages in bounded steps. Several processes
#   may walk: the ledger has each message once.


IMPLICIT_HAM_SOURCE = "kept"
_HAM = CLASSES[HAM]
_STEP = 100  # messages a walk: each takes two milliseconds of this process


class ImplicitHamLearner:
    """Learns implicit ham as ham without people, with the ``parts`` of a filter that uses what is learned so.

    ``report_outcome`` is called for each message with its label and its outcome: ``kept`` (it is learned),
    ``already``, ``human``, ``unsure`` (the present counts do not call it ham) or ``failed``.
    """

    def __init__(
        self,
        parts: FilterParts,
        policy: FilterPolicy,
        report_outcome: Callable[[str, str], object] = lambda _label, _outcome: None,
    ) -> None:
        self._parts = parts
        self._needed = policy.min_learned
        self._scorer = parts.make_scorer(policy)
        self._report_outcome = report_outcome

    async def is_needed(self) -> bool:
        """Return whether implicit ham counts. Raises ``StoreUnavailable``."""
        _, totals = await self._parts.counts.look_up(())
        return counts_implicit_ham(totals, self._needed)

    async def learn(self, message: CheckedMessage) -> bool:
        """Learn a message that was kept, and return whether it was. Raises ``StoreUnavailable``."""
        if message.is_listed or Verdict(message.verdict).is_spam or not await self.is_needed():
            return False
        try:
            outcome = await self._learn(message)
        except StoreIncompatible as error:  # of this message alone: another program wrote its ledger entry
            _log.warning("message %s was not learned as implicit ham: %s", message.key, error)
            outcome = "failed"
        self._report_outcome(_HAM, outcome)
        return outcome == "kept"

    async def _learn(self, message: CheckedMessage) -> str:
        parts = self._parts
        if parts.user_labels and await parts.user_labels.has(message.key):
            return "human"
        counts = await self._scorer.read_counts(message.tokens.all.names)
        check = self._scorer.check(message.key, message.tokens, counts)
        if not is_kept_ham(check.probability, check.thresholds, check.state):
            return "unsure"
        weight = round(WEIGHT_SHARE * lesson_weight(check.score, _HAM))
        _, automatic = await parts.counts.look_up_columns((), automatic=True)
        version, tokens, now = secrets.token_hex(8), message.tokens.all, parts.clock()
        column = automatic.columns[HAM]
        entry = LedgerEntry(version, column, weight, tokens, now, IMPLICIT_HAM_SOURCE, "", check.score)
        assessment = Assessment(check.probability, str(check.verdict))
        outcome = await learn_automatically(parts.model, parts.counts, message.key, entry, assessment)
        return "kept" if outcome == "learned" else outcome


class ImplicitHamWalk:
    """Walks over the remembered messages that were checked ``kept_seconds`` ago or earlier, the oldest first.

    ``remembered`` is ``RecentMessages.oldest_between``.
    """

    def __init__(
        self,
        learner: ImplicitHamLearner,
        remembered: Callable[[float, float, int], AsyncIterator[tuple[float, CheckedMessage | None]]],
        kept_seconds: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._learner = learner
        self._remembered = remembered
        self._kept_seconds = kept_seconds
        self._clock = clock
        self._walked_until = 0.0

    async def step(self) -> int:
        """Learn the next messages that were kept, and return how many. Raises ``StoreUnavailable``."""
        learned = 0
        if not await self._learner.is_needed():
            return learned
        until = self._clock() - self._kept_seconds
        async for checked_at, message in self._remembered(self._walked_until, until, _STEP):
            learned += message is not None and await self._learner.learn(message)
            self._walked_until = checked_at
        return learned
