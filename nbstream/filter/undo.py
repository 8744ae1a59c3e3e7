"""An undo of lessons, and what it would do: the same for the command and for the page.

Rules: a preview writes nothing. A change that cannot be undone is reported with its reason, and stands in the way
of no other. The message that was changed last comes first, and within a message its newest change. An interrupted
undo may be repeated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.filter.preview import HypotheticalCounts, preview_verdicts
from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.undo import apply_undo, prepare_undo

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, Callable, Iterator, Mapping, Sequence

    from nbstream.bayes.counts import Totals
    from nbstream.filter.preview import Preview
    from nbstream.filter.scorer import Scorer
    from nbstream.store.model.history import HistoryChange
    from nbstream.store.model.model import Model
    from nbstream.store.recent.checked_messages import CheckedMessage
    from nbstream.store.undo import MessageUndo, UndoableChange

MAX_PREVIEWED = 1000
"""So many of the messages that were checked last are scored again for a preview: a second or two."""


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
