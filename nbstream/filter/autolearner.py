"""Learning without people: what a check is sure of is learned too, in a layer of its own.

Rules: no check waits for this: candidates wait in a bounded queue, and one task learns them. A message with a
person's label is left alone, and that label takes back what was learned here. Both sides write first and look at
the other's ledger afterwards, so of two at the same moment at least one sees the other, and the person's stays.
What fails is dropped and counted: nothing here is worth a retry.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from nbstream.errors import NbstreamError, StoreIncompatible, StoreUnavailable
from nbstream.filter.protocols import SilentObserver
from nbstream.policy import autolearn
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.model.history import Assessment, LessonNote
from nbstream.store.model.ledger import LedgerConflict, LedgerEntry

if TYPE_CHECKING:
    from nbstream.filter.protocols import CountSource, LessonStore
    from nbstream.filter.results import Check, CheckSeconds
    from nbstream.filter.scorer import Scorer
    from nbstream.tokens.tokenizer import Tokens

_log = logging.getLogger(__name__)

MAX_QUEUED = 256  # as many as wait to be remembered: 6 MB
AUTOLEARN_SOURCE = "auto"
_MAX_CONFLICTS = 20
_RECONCILE_SECONDS = 3600.0
_RETRY_SECONDS = 60.0


class AutolearnLayer:
    """The layer as it is used: ``model`` keeps the lessons, ``counts`` is where they are read."""

    def __init__(self, model: LessonStore, counts: CountSource) -> None:
        self.model = model
        self.counts = counts

    async def withdraw(self, message_key: str) -> str | None:
        """Take back exactly what was learned of the message here; its label, or None where that is nothing.

        Raises ``StoreUnavailable``; the same may be done again then.
        """
        label = None
        for _ in range(_MAX_CONFLICTS):
            entry = await self.model.entry(message_key)
            if entry is None:  # or the reply to our own write was lost, and it was made again
                return label
            label, nothing = entry.label, Assessment(0.5, "unsure")
            change = await self.model.commit_lesson(
                message_key, entry, None, LessonNote(AUTOLEARN_SOURCE, "", nothing, nothing)
            )
            if isinstance(change, bytes):
                await self.counts.wait_until_applied(change)
                return label
        raise StoreUnavailable(f"message {message_key} is being changed by others all the time")

    async def withdraw_many(self, message_keys: Sequence[str]) -> dict[str, str | StoreIncompatible]:
        """The same for several messages: the labels of those of which something was learned here.

        Where that cannot be read, the error.
        """
        withdrawn: dict[str, str | StoreIncompatible] = {}
        for key, entry in zip(message_keys, await self.model.entries(message_keys), strict=True):
            if isinstance(entry, StoreIncompatible):
                withdrawn[key] = entry
            elif entry and (label := await self.withdraw(key)):
                withdrawn[key] = label
        return withdrawn

    async def ledger_keys(self, former_keys: Mapping[str, str]) -> Mapping[str, str]:
        """As of the model. Raises ``StoreUnavailable``."""
        return await self.model.ledger_keys(former_keys)


class AutolearnReconciler:
    """Takes back what was learned of messages that people have labelled since where nobody saw to it.

    That is what an import brings, an undo puts back, and whoever teaches with autolearning switched off.
    ``disputed`` finds the messages.
    """

    def __init__(self, layer: AutolearnLayer, disputed: Callable[[], AsyncIterator[str]]) -> None:
        self._layer = layer
        self._disputed_messages = disputed

    async def run(self) -> None:
        """Look once an hour, until cancelled; a minute after a failure."""
        while True:
            stop_if_cancelled()
            try:
                await self.reconcile()
                pause = _RECONCILE_SECONDS
            except NbstreamError as error:
                _log.warning("what people say does not replace all that was autolearned yet: %s", error)
                pause = _RETRY_SECONDS
            await asyncio.sleep(pause)

    async def reconcile(self) -> None:
        """Look once. Raises ``StoreUnavailable``."""
        async for message_key in self._disputed_messages():
            await self._layer.withdraw(message_key)


class Autolearner(SilentObserver):
    """Learns what checks are sure of; an observer of the filter.

    ``people`` is the model that people teach, ``scorer`` scores over its counts alone. ``told`` is given the label
    and what became of each candidate: ``learned``, ``already``, ``unbalanced``, ``human``, ``unsure``, ``failed``,
    ``dropped``.
    """

    def __init__(
        self,
        people: LessonStore,
        layer: AutolearnLayer,
        scorer: Scorer,
        params: autolearn.AutolearnOptions,
        told: Callable[[str, str], object] = lambda _label, _outcome: None,
    ) -> None:
        self._taught_model = people
        self._layer = layer
        self._scorer = scorer
        self._options = params
        self._report_outcome = told
        self._queue: asyncio.Queue[tuple[Check, Tokens]] = asyncio.Queue(MAX_QUEUED)
        self._is_working = True

    def checked(self, check: Check, tokens: Tokens, seconds: CheckSeconds) -> None:
        """One message was checked: it is a candidate if the model decides, and is sure of it."""
        label = autolearn.autolearn_label(check.probability, self._options)
        if label is None or check.state.is_learning:
            return
        try:
            self._queue.put_nowait((check, tokens))
        except asyncio.QueueFull:
            self._report_outcome(label, "dropped")

    async def run(self) -> None:
        """Learn the candidates as they come, until cancelled."""
        while True:
            await self._learn_candidate(*await self._queue.get())

    async def learn_queued(self) -> int:
        """Learn the candidates that wait; of how many. For those who have no task to run beside."""
        learned = 0
        while not self._queue.empty():
            learned += await self._learn_candidate(*self._queue.get_nowait()) == "learned"
        return learned

    async def _learn_candidate(self, check: Check, tokens: Tokens) -> str:
        label = autolearn.autolearn_label(check.probability, self._options)
        assert label is not None
        try:
            outcome = await self._learn(check, tokens, label)
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

    async def _learn(self, check: Check, tokens: Tokens, label: str) -> str:
        reading = await self._scorer.read_counts(tokens)
        alone = self._scorer.check(check.id, tokens, reading)
        if autolearn.autolearn_label(alone.probability, self._options) != label:
            return "unsure"
        _, totals = await self._layer.counts.look_up(())
        if not autolearn.is_balanced(label, totals.messages, self._options):
            return "unbalanced"
        if await self._taught_model.entry(check.id):
            return "human"
        if await self._layer.model.entry(check.id):
            return "already"
        weight, sums = self._scorer.weigh_autolearned_lesson(
            tokens, alone.score, label, reading, self._options.weight_share
        )
        entry = LedgerEntry(
            secrets.token_hex(8), label, weight, tokens.all, time.time(), AUTOLEARN_SOURCE, "", check.score, sums
        )
        opinion = Assessment(check.probability, str(check.verdict))
        change = await self._layer.model.commit_lesson(
            check.id, None, entry, LessonNote(AUTOLEARN_SOURCE, "", opinion, opinion)
        )
        if await self._taught_model.entry(check.id):
            await self._layer.withdraw(check.id)
            return "human"
        if isinstance(change, LedgerConflict):
            return "already"
        await self._layer.counts.wait_until_applied(change)
        return "learned"
