"""What can be taken back of a message, and what not: planning alone, without a store."""

from __future__ import annotations

import pytest

from nbstream.store.undo.plan import IrreversibleChange, UndoableChange, UndoPlan, plan_undo


def history(*steps: str, source: str = "smtp") -> list[UndoableChange]:
    """Changes of one message, newest first, from ``who:version`` in order of time; ``-`` is no entry.

    A's are chosen; ``undo`` as somebody's name is the source too.
    """
    changes: list[UndoableChange] = []
    former = None
    for number, step in enumerate(steps):
        who, _, wrote = step.partition(":")
        version = None if wrote == "-" else wrote
        source = "undo" if who == "undo" else "smtp"
        place = b"%d-0" % number
        changes.append(UndoableChange(place, float(number), "", source, who, version, former, selected=who == "A"))
        former = version
    return changes[::-1]


def told(made: UndoPlan) -> tuple[list[str], list[str]]:
    """Places of what is taken back, and of what is not with its reason."""
    return (
        [change.id.decode()[:-2] for change in made.reversible],
        [f"{kept.change.id.decode()[:-2]}: {kept.reason}" for kept in made.irreversible],
    )


@pytest.mark.parametrize(
    ("steps", "live", "taken", "kept"),
    [
        # What nobody else touched is taken back to before the first of A's changes.
        (["A:v1"], "v1", ["0"], []),
        (["A:v1", "A:v2", "A:-"], None, ["2", "1", "0"], []),
        (["B:v1", "A:v2"], "v2", ["1"], []),
        (["B:v1", "A:-"], None, ["1"], []),
        # Only A's last word is taken back where B spoke between, and nothing where B spoke last.
        (["A:v1", "B:v2", "A:v3"], "v3", ["2"], ["0: changed since by smtp B"]),
        (["A:v1", "B:v2"], "v2", [], ["0: changed since by smtp B"]),
        (["A:v1", "A:v2", "B:-"], None, [], ["1: changed since by smtp B", "0: changed since by smtp B"]),
        # That there is no entry does not say who left it so.
        (["B:v1", "A:-", "B:v3", "B:-"], None, [], ["1: changed since by smtp B"]),
        # Once more, after it was done: there is nothing left, or nothing that would change.
        (["A:v1", "undo:-"], None, [], ["0: taken back since by undo"]),
        (["A:v1", "A:v2", "undo:v1"], "v1", ["0"], ["1: taken back since by undo"]),
        # An entry of the very version that a change wrote is as that change left it, whoever put it back.
        (["A:v1", "B:v2", "undo:v1"], "v1", ["0"], []),
        # The ledger forgets.
        (["A:v1"], None, [], ["0: its ledger entry has expired"]),
        (["A:v1", "A:-"], "v9", [], [f"{n}: its ledger entry is not the one of the history" for n in (1, 0)]),
    ],
)
def test_what_is_still_as_it_was_left_is_taken_back(
    steps: list[str], live: str | None, taken: list[str], kept: list[str]
) -> None:
    assert told(plan_undo(live, history(*steps))) == (taken, kept)


def test_an_unlearn_is_not_taken_back_behind_a_change_that_is_kept() -> None:
    # v2 has expired: its counts are still there, and v0 beside them would count the message twice.
    changes = history("B:v0", "A:-", "A:v2")

    assert told(plan_undo(None, changes)) == ([], [f"{n}: its ledger entry has expired" for n in (2, 1)])


def test_nothing_chosen_is_nothing_done() -> None:
    assert plan_undo("v1", history("B:v1")) == plan_undo(None, []) == UndoPlan((), ())


def test_what_is_kept_is_told_with_the_change_itself() -> None:
    (change,) = history("A:v1")

    assert plan_undo("v2", [change]).irreversible == (
        IrreversibleChange(change, "its ledger entry is not the one of the history"),
    )
