"""Autolearning: messages of which a check is sure are learned too, without people, in columns of their own.

Rules:

- No check waits for autolearning. Candidates wait in a bounded queue, and one task learns them.
- A message that a person has labelled is not autolearned. A person's label on one that was autolearned is a
  relearn like any other: its step takes back exactly what was autolearned. All entries are in one ledger.
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
from collections.abc import Callable
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES
from nbstream.bayes.kinds import automatic_columns
from nbstream.bayes.lesson_weight import lesson_weight
from nbstream.errors import NbstreamError
from nbstream.filter.parts import FilterObserver
from nbstream.policy.autolearn import MAX_LEAD, WEIGHT_SHARE, is_balanced, is_known
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.results import Check, CheckSeconds
    from nbstream.filter.scorer import Scorer
    from nbstream.filter.sources import CountSource, LessonStore
    from nbstream.policy.envelope import BuildEnvelope
    from nbstream.policy.settings import AutolearnSettings

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
                _log.info("what checks are sure of is learned again")
            self._is_working = True
        except NbstreamError as error:
            outcome = "failed"
            if self._is_working:  # once, not for each message of an outage
                _log.warning("what checks are sure of is not learned now: %s", error)
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
        automatic = await self._counts.look_up_automatic(tokens.all.names)
        by_both = self._scorer.score_by_both(tokens, counts, automatic)
        if is_known(label, check_by_people.score) or is_known(label, by_both):
            return "known"
        if not is_balanced(label, automatic.totals.messages, self._max_lead):
            return "unbalanced"
        # No sums: the calibration learns nothing, because what the model says of itself is no evidence.
        weight = round(WEIGHT_SHARE * lesson_weight(check_by_people.score, label))
        column = automatic_columns(automatic.generation)[CLASSES.index(label)]
        entry = LedgerEntry(
            secrets.token_hex(8), column, weight, tokens.all, time.time(), AUTOLEARN_SOURCE, "", check.score
        )
        assessment = Assessment(check.probability, str(check.verdict))
        return await learn_automatically(self._model, self._counts, check.id, entry, assessment)
