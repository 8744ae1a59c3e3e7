"""Implicit ham: where people move nothing but spam, what they leave in place counts as ham until they teach ham.

Rules:

- A message is implicit ham when nobody labelled it for some time, in whatever model, and its verdict did not send
  it to Junk. It is learned as ham without people, once, and a person's label takes that back. What a sender list
  decided is no implicit ham.
- Implicit ham is learned, and counts, as long as people have taught fewer ham than the model needs. After that its
  lessons stay, with the bounded effect that all automatic lessons have, and no more are added.
- No check waits for it. A walk takes the oldest of the remembered messages in bounded steps. Several processes may
  walk: the ledger has each message once.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.bayes.kinds import automatic_columns
from nbstream.bayes.lesson_weight import lesson_weight
from nbstream.bayes.multinomial import HAM
from nbstream.errors import StoreIncompatible
from nbstream.filter.autolearner import learn_automatically
from nbstream.policy.autolearn import WEIGHT_SHARE, counts_implicit_ham, is_kept_ham
from nbstream.policy.verdict import Verdict
from nbstream.store.model.history import Assessment
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.parts import FilterParts
    from nbstream.filter.results import FilterPolicy
    from nbstream.store.recent.checked_messages import CheckedMessage

_log = logging.getLogger(__name__)

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
            _log.warning("message %s is not learned as implicit ham: %s", message.key, error)
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
        column = automatic_columns((await parts.counts.look_up_automatic(())).generation)[HAM]
        version, tokens, now = secrets.token_hex(8), message.tokens.all, parts.clock()
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
