"""``nbstream undo`` as a user meets it, over a real Redis."""

from __future__ import annotations

import os
import pwd

from nbstream.mail.message import Message
from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"
USER = f"user {pwd.getpwuid(os.getuid()).pw_name}"


def outcomes(taught: Taught, *arguments: str) -> list[tuple[str, str, str | None]]:
    """Id, outcome and reason of each change."""
    return [(line["id"], line["outcome"], line["why"]) for line in taught.json("undo", *arguments)[:-1]]


def test_without_yes_it_previews_and_changes_nothing(taught: Taught) -> None:
    lunch = taught.teach(LUNCH, "ham", "ben")
    prize = taught.teach(PRIZE, "ham", "mallory")
    taught.teach(PRIZE, "spam", "mallory")
    before, known = taught.stored(), taught("history")

    out, err = taught("undo", "--since", "2h", "--actor", "mallory")

    lines = [line.split("  ")[1:] for line in out.splitlines()[:2]]
    assert lines == [
        [prize, "relearned ham -> spam", "smtp mallory", "would be taken back"],
        [prize, "learned ham", "smtp mallory", "would be taken back"],
    ]
    assert out.splitlines()[2:] == [
        "changes: 2 would be taken back",
        "nothing was changed; --yes does it",
    ]
    assert (err, lunch in out) == ("", False)
    assert taught.stored() == before
    assert taught("history") == known


def test_with_yes_it_is_done_noted_and_can_be_taken_back(taught: Taught) -> None:
    taught.teach(LUNCH, "ham", "ben")
    before = taught.stored()
    prize = taught.teach(PRIZE, "ham", "mallory")
    taught.teach(LUNCH, "spam", "mallory")
    poisoned = taught.stored()

    out, _ = taught("undo", "--since", "2h", "--actor", "mallory", "--yes")

    assert out.splitlines()[-1] == "changes: 2 taken back"
    assert taught.stored() == before
    last = [(line["change"], line["source"], line["actor"]) for line in taught.json("history")[-2:]]
    assert last == [("relearned spam -> ham", "undo", USER), ("unlearned ham", "undo", USER)]

    again = outcomes(taught, "--since", "2h", "--actor", "mallory", "--yes")
    assert again == [(key, "stays", f"taken back since by {USER}") for key in (prize, Message.parse(LUNCH).key)]
    assert taught.stored() == before

    taught("undo", "--since", "2h", "--actor", USER, "--yes")
    assert taught.stored() == poisoned
