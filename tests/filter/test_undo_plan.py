"""Which changes of a message can be undone, and which not: the plan alone, without a store."""

from __future__ import annotations

import pytest

from nbstream.filter.undo import ChangeOutcome, UndoableChange, UndoOutcome, UndoPlan, plan_undo
from nbstream.store.model.history import HistoryChange, LessonNote
from tests.harness.lessons import NOTE


def history(*steps: str, source: str = "smtp") -> list[UndoableChange]:
    """Changes of one message, newest first, from ``actor:version`` in order of time; ``-`` is no entry.

    The changes of A are selected; the actor ``undo`` has the source ``undo`` too.
    """
    changes: list[UndoableChange] = []
    version_before = None
    for number, step in enumerate(steps):
        actor, _, name = step.partition(":")
        version = None if name == "-" else name
        note = LessonNote("undo" if actor == "undo" else source, actor, NOTE.before, NOTE.after)
        change = HistoryChange(
            id=b"%d-0" % number,
            at=float(number),
            message_key="message",
            label=version and "spam",
            version=version,
            former_label=version_before and "spam",
            former_version=version_before,
            note=note,
        )
        changes.append(UndoableChange(change, actor == "A"))
        version_before = version
    return changes[::-1]


def summary(plan: UndoPlan) -> tuple[list[str], list[str]]:
    """The numbers of the changes that are undone, and of those that are not, with the reason."""
    return (
        [change.id.decode()[:-2] for change in plan.reversible],
        [f"{refusal.change.id.decode()[:-2]}: {refusal.why}" for refusal in plan.irreversible],
    )


@pytest.mark.parametrize(
    ("steps", "version", "reversible", "irreversible"),
    [
        # What nobody else changed goes back to the entry before the first of A's changes.
        (["A:v1"], "v1", ["0"], []),
        (["A:v1", "A:v2", "A:-"], None, ["2", "1", "0"], []),
        (["B:v1", "A:v2"], "v2", ["1"], []),
        (["B:v1", "A:-"], None, ["1"], []),
        # If B changed the message in between, only A's last change is undone; if B changed it last, none is.
        (["A:v1", "B:v2", "A:v3"], "v3", ["2"], ["0: changed since by smtp B"]),
        (["A:v1", "B:v2"], "v2", [], ["0: changed since by smtp B"]),
        (["A:v1", "A:v2", "B:-"], None, [], ["1: changed since by smtp B", "0: changed since by smtp B"]),
        # A missing entry does not say who removed it.
        (["B:v1", "A:-", "B:v3", "B:-"], None, [], ["1: changed since by smtp B"]),
        # A second undo finds no change to undo, or only changes whose undo alters nothing.
        (["A:v1", "undo:-"], None, [], ["0: taken back since by undo"]),
        (["A:v1", "A:v2", "undo:v1"], "v1", ["0"], ["1: taken back since by undo"]),
        # An entry with the version that a change wrote is as that change left it, whoever restored it.
        (["A:v1", "B:v2", "undo:v1"], "v1", ["0"], []),
        # The ledger entry has expired, or is another one.
        (["A:v1"], None, [], ["0: its ledger entry has expired"]),
        (["A:v1", "A:-"], "v9", [], [f"{n}: its ledger entry is not the one of the history" for n in (1, 0)]),
    ],
)
def test_a_change_is_undone_if_the_message_is_still_as_it_left_it(
    steps: list[str], version: str | None, reversible: list[str], irreversible: list[str]
) -> None:
    assert summary(plan_undo(version, history(*steps))) == (reversible, irreversible)


def test_an_unlearn_is_not_undone_before_a_later_change_that_stays() -> None:
    # v2 has expired: its counts are still there, and v0 beside them would count the message twice.
    changes = history("B:v0", "A:-", "A:v2")

    assert summary(plan_undo(None, changes)) == ([], [f"{n}: its ledger entry has expired" for n in (2, 1)])


def test_an_irreversible_change_is_reported_with_its_reason() -> None:
    (change,) = history("A:v1")

    assert plan_undo("v2", [change]).irreversible == (
        ChangeOutcome(change.change, UndoOutcome.STAYS, "its ledger entry is not the one of the history"),
    )
