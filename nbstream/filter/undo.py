"""An undo of lessons, and what it would do: the same for the command and for the page.

Rules: a preview writes nothing. What the undo would change is kept as counts (``ClassCounts``) and added to those
of the model at each look-up, so that taking an entry out and putting it in again cancel each other exactly. The
change of the vocabulary's size is counted once: a preview holds for one moment.

A change that cannot be undone is reported with its reason, and stands in the way of no other. The message that was
changed last comes first, and within a message its newest change. An interrupted undo may be repeated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.bayes.counts import CLASSES, ClassCounts, Totals
from nbstream.policy.recipient_rules import DEFAULT_RULE_NAME
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.undo import apply_undo, prepare_undo

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from nbstream.filter.scorer import Scorer
    from nbstream.filter.sources import CountSource
    from nbstream.policy.first_scores import FirstScores
    from nbstream.store.model.history import HistoryChange
    from nbstream.store.model.ledger import LedgerEntry
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.store.undo import MessageUndo, UndoableChange

_LOOK_UP_STEP = 2000  # tokens of one look-up: 1 to 2 ms of Redis
MAX_PREVIEWED = 1000
"""So many of the messages that were checked last are scored again for a preview: a second or two."""


class HypotheticalCounts:
    """The counts as they would be after some changes (a ``CountSource``).

    Memory: about 150 bytes for each token that is changed.
    """

    def __init__(self, model: CountSource) -> None:
        self._model = model
        self._changes = ClassCounts()
        self._vocabulary_growth: int | None = None

    @property
    def native_table(self) -> None:
        """None: the counts are not in a table."""

    def replace_entry(self, old: LedgerEntry | None, new: LedgerEntry | None) -> None:
        """Suppose that ``old`` is taken back and ``new`` is added. Call it before the first look-up."""
        if old:
            self._changes.subtract(old.tokens, CLASSES.index(old.label), old.weight, old.sums)
        if new:
            self._changes.add(new.tokens, CLASSES.index(new.label), new.weight, new.sums)

    async def look_up(self, tokens: Sequence[bytes]) -> tuple[NDArray[np.int64], Totals]:
        """Return the counts of ``tokens`` or sums, shape (n, classes), and the totals."""
        rows, totals = await self._model.look_up(tokens)
        if self._vocabulary_growth is None:
            self._vocabulary_growth = await self._count_vocabulary_growth()
        changes = self._changes.totals
        return rows + self._changes.look_up(tokens), Totals(
            _add_by_class(totals.messages, changes.messages),
            _add_by_class(totals.token_weights, changes.token_weights),
            totals.vocabulary_size + self._vocabulary_growth,
        )

    async def sums(self, names: tuple[bytes, ...]) -> NDArray[np.int64]:
        """Return the counts of these sums, shape (n, classes)."""
        return (await self.look_up(names))[0]

    async def first_scores(self) -> FirstScores:
        """Return those of the model: the preview assumes that the thresholds of budgets stay as they are."""
        return await self._model.first_scores()

    async def wait_until_applied(self, change: bytes) -> None:
        """Return at once: each look-up sees each change."""

    async def _count_vocabulary_growth(self) -> int:
        """Return how many more tokens would have a count above zero; a negative number means fewer."""
        tokens, growth = self._changes.tokens(), 0
        for first in range(0, len(tokens), _LOOK_UP_STEP):
            step = tokens[first : first + _LOOK_UP_STEP]
            before, _ = await self._model.look_up(step)
            after = before + self._changes.look_up(step)
            growth += int((after > 0).any(axis=1).sum()) - int((before > 0).any(axis=1).sum())
        return growth


@dataclass(frozen=True, slots=True)
class Preview:
    """The number of messages looked at, and the number of changed verdicts by (old verdict, new verdict)."""

    messages: int
    changes: Mapping[tuple[str, str], int]


async def preview_verdicts(
    checked_messages: AsyncIterable[CheckedMessage], before: Scorer, after: Scorer
) -> Preview:
    """Compare the verdicts that ``before`` gives to checked messages with those that ``after`` gives.

    What else has been learned since their checks is therefore on both sides. Messages that a recipient rule
    decided are left out: the thresholds of such a rule are others.
    """
    messages, changes = 0, Counter[tuple[str, str]]()
    async for checked in checked_messages:
        if checked.policy != DEFAULT_RULE_NAME:
            continue
        was, would = [(await scorer.check_now(checked.key, checked.tokens)).verdict for scorer in (before, after)]
        messages += 1
        if was is not would:
            changes[str(was), str(would)] += 1
    return Preview(messages, changes)


def _add_by_class(one: tuple[int, ...], other: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip(one, other, strict=True))


class UndoOutcome(StrEnum):
    """What became of a change, or would become of it."""

    WOULD_BE_TAKEN_BACK = "would be taken back"
    TAKEN_BACK = "taken back"
    ALREADY_SO = "already so"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What became of one change of a message; ``why`` is empty where it needs no reason."""

    message_key: str
    change: HistoryChange
    outcome: UndoOutcome
    why: str = ""


@dataclass(frozen=True, slots=True)
class UndoSummary:
    """Changes counted by their outcome, the totals before and after, and in a preview the changed verdicts."""

    outcomes: Mapping[UndoOutcome, int]
    before: Totals
    after: Totals
    verdicts: Preview | None = None


async def preview_undo(
    model: Model,
    changes: Mapping[str, Sequence[UndoableChange]],
    checked_messages: AsyncIterable[CheckedMessage],
    make_scorer: Callable[[HypotheticalCounts], Scorer],
    report: Callable[[ChangeOutcome], object],
) -> UndoSummary:
    """Say what an undo of ``changes`` (of ``selected_changes``) would do; ``report`` gets each of them at once.

    Two scorers give their verdicts on ``checked_messages``: one over the counts as they are, and one over the
    counts after the undo. Raises ``StoreUnavailable``.
    """
    before, hypothetical = await model.totals(), HypotheticalCounts(model)
    counts: Counter[UndoOutcome] = Counter()
    for key, message_changes in changes.items():
        stop_if_cancelled()
        message_undo = await prepare_undo(model, key, message_changes)
        hypothetical.replace_entry(message_undo.current_entry, message_undo.restored_entry)
        for outcome in _change_outcomes(message_undo, UndoOutcome.WOULD_BE_TAKEN_BACK):
            counts[outcome.outcome] += 1
            report(outcome)
    _, after = await hypothetical.look_up([])
    scorers = make_scorer(HypotheticalCounts(model)), make_scorer(hypothetical)
    verdicts = await preview_verdicts(checked_messages, *scorers)
    return UndoSummary(counts, before, after, verdicts)


async def undo_changes(
    model: Model,
    changes: Mapping[str, Sequence[UndoableChange]],
    actor: str,
    report: Callable[[ChangeOutcome], object],
) -> UndoSummary:
    """Undo ``changes`` (of ``selected_changes``) in the name of ``actor``; ``report`` gets each of them at once.

    Raises ``StoreUnavailable``; what was reported is done then.
    """
    before = await model.totals()
    counts: Counter[UndoOutcome] = Counter()
    for key, message_changes in changes.items():
        stop_if_cancelled()
        message_undo = await prepare_undo(model, key, message_changes)
        if await apply_undo(model, message_undo, actor):
            done, why = UndoOutcome.TAKEN_BACK, ""
        else:
            done, why = UndoOutcome.STAYS, "changed by others at this very moment"
        for outcome in _change_outcomes(message_undo, done, why):
            counts[outcome.outcome] += 1
            report(outcome)
    return UndoSummary(counts, before, await model.totals())


def _change_outcomes(message_undo: MessageUndo, done: UndoOutcome, why: str = "") -> Iterator[ChangeOutcome]:
    key = message_undo.message_key
    for change in message_undo.plan.reversible:
        if message_undo.changes_ledger:
            yield ChangeOutcome(key, change, done, why)
        else:
            yield ChangeOutcome(key, change, UndoOutcome.ALREADY_SO)
    for irreversible in message_undo.plan.irreversible:
        yield ChangeOutcome(key, irreversible.change, UndoOutcome.STAYS, irreversible.reason)
