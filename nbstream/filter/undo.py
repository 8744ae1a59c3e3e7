"""An undo of lessons, and what it would do: the same for the command and for the page.

Rules: a change that cannot be undone is reported with its reason, and stands in the way of no other. The message
that was changed last comes first, and within a message its newest change. An interrupted undo may be repeated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from nbstream.store.cancellation import stop_if_cancelled
from nbstream.store.undo import apply_undo, prepare_undo

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from nbstream.store.model.history import HistoryChange
    from nbstream.store.model.model import Model
    from nbstream.store.undo import MessageUndo, UndoableChange


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


async def undo_changes(
    model: Model,
    changes: Mapping[str, Sequence[UndoableChange]],
    report: Callable[[ChangeOutcome], object],
    actor: str | None,
) -> Counter[UndoOutcome]:
    """Undo ``changes`` (of ``selected_changes``) in the name of ``actor``, and count them by their outcome.

    Where ``actor`` is None, nothing is written: this says what an undo would do. ``report`` gets each change at
    once. Raises ``StoreUnavailable``; what was reported is done then.
    """
    counts: Counter[UndoOutcome] = Counter()
    for key, message_changes in changes.items():
        stop_if_cancelled()
        message_undo = await prepare_undo(model, key, message_changes)
        outcome, why = UndoOutcome.WOULD_BE_TAKEN_BACK, ""
        if actor is not None:
            outcome = UndoOutcome.TAKEN_BACK
            if not await apply_undo(model, message_undo, actor):
                outcome, why = UndoOutcome.STAYS, "changed by others at this very moment"
        for of_change in _change_outcomes(message_undo, outcome, why):
            counts[of_change.outcome] += 1
            report(of_change)
    return counts


def _change_outcomes(message_undo: MessageUndo, done: UndoOutcome, why: str) -> Iterator[ChangeOutcome]:
    key = message_undo.message_key
    for change in message_undo.plan.reversible:
        if message_undo.changes_ledger:
            yield ChangeOutcome(key, change, done, why)
        else:
            yield ChangeOutcome(key, change, UndoOutcome.ALREADY_SO)
    for irreversible in message_undo.plan.irreversible:
        yield ChangeOutcome(key, irreversible.change, UndoOutcome.STAYS, irreversible.reason)
