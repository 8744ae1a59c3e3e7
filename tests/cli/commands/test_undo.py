"""``nbstream undo`` as a user meets it, over a real Redis."""

from __future__ import annotations

import os
import pwd
from datetime import UTC, datetime, timedelta

import pytest

from nbstream.mail.message import Message
from tests.cli.taught import Taught
from tests.letters import letters

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"
USER = f"user {pwd.getpwuid(os.getuid()).pw_name}"


def moment(**later: int) -> str:
    return (datetime.now(UTC) + timedelta(**later)).isoformat()


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
        "changes: 2 would be taken back; the model knows 1 ham, 1 spam, then 1 ham, 0 spam",
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

    assert out.splitlines()[-1] == "changes: 2 taken back; the model knew 1 ham, 1 spam, now 1 ham, 0 spam"
    assert taught.stored() == before
    last = [(line["change"], line["source"], line["actor"]) for line in taught.json("history")[-2:]]
    assert last == [("relearned spam -> ham", "undo", USER), ("unlearned ham", "undo", USER)]

    again = outcomes(taught, "--since", "2h", "--actor", "mallory", "--yes")
    assert again == [(key, "stays", f"taken back since by {USER}") for key in (prize, Message.parse(LUNCH).key)]
    assert taught.stored() == before

    taught("undo", "--since", "2h", "--actor", USER, "--yes")
    assert taught.stored() == poisoned


def test_what_cannot_be_taken_back_is_listed_and_hinders_nothing(taught: Taught) -> None:
    prize = taught.teach(PRIZE, "ham", "mallory")
    taught.teach(PRIZE, "spam", "ben")
    lunch = taught.teach(LUNCH, "spam", "mallory")
    expired = taught.teach(b"Subject: old\n\nnews\n", "spam", "mallory")
    taught.model(lambda model: model.client.delete(model.keys.ledger(expired)))

    assert outcomes(taught, "--since", "2h", "--actor", "mallory", "--yes") == [
        (expired, "stays", "its ledger entry has expired"),
        (lunch, "taken back", None),
        (prize, "stays", "changed since by smtp ben"),
    ]
    assert [line["change"] for line in taught.json("history")][-1] == "unlearned spam"


def test_all_since_a_moment_is_taken_back_whoever_taught(taught: Taught) -> None:
    taught.teach(LUNCH, "ham", "ben")
    before, since = taught.stored(), moment()
    taught.teach(LUNCH, None, "ann")
    for label, raw in letters(10):
        taught.teach(raw, label, "ben")

    taught("undo", "--since", since, "--yes")
    assert taught.stored() == before

    # Once more, when its own restorations are since then, too.
    *changes, summary = taught.json("undo", "--since", since, "--yes")
    assert {change["outcome"] for change in changes} == {"already so"}
    assert summary["changes"] == {"already so": 22}
    assert taught.stored() == before


def test_it_is_limited_by_message_label_source_and_end(taught: Taught) -> None:
    prize = taught.teach(PRIZE, "spam", "ann")
    between = moment()
    lunch = taught.teach(LUNCH, "ham", "ann")

    def chosen(*arguments: str) -> list[str]:
        return [key for key, outcome, _ in outcomes(taught, *arguments) if outcome == "would be taken back"]

    assert chosen("--since", "2h") == [lunch, prize]
    assert chosen("--since", "2h", "--label", "spam") == [prize]
    assert chosen("--since", "2h", "--until", between) == [prize]
    assert chosen("--since", between) == [lunch]
    assert chosen("--id", lunch) == [lunch]
    assert chosen("--since", "2h", "--source", "smtp") == [lunch, prize]
    assert taught("undo", "--since", "2h", "--source", "page")[0] == ""
    assert taught("undo", "--id", lunch, "--since", moment(hours=1)) == (
        "",
        "nbstream: no such change in the history of model 'test'\n",
    )


def test_json_ends_with_what_it_comes_to(taught: Taught) -> None:
    taught.teach(PRIZE, "spam", "ann")

    change, summary = taught.json("undo", "--since", "2h")

    assert set(change) == {"time", "id", "change", "source", "actor", "outcome", "why"}
    assert (change["change"], change["source"], change["actor"]) == ("learned spam", "smtp", "ann")
    assert summary == {
        "done": False,
        "changes": {"would be taken back": 1},
        "before": {"ham": 0, "spam": 1},
        "after": {"ham": 0, "spam": 0},
        "checked": 0,
        "verdicts": [],
    }
    _, summary = taught.json("undo", "--since", "2h", "--yes")
    assert (summary["done"], summary["after"]) == (True, {"ham": 0, "spam": 0})


def test_an_actor_cannot_move_the_terminal_or_forge_a_line(taught: Taught) -> None:
    taught.teach(PRIZE, "spam", "\x1b[2J\nme")
    taught.teach(PRIZE, "ham", "\x1b[1J\nyou")

    out, _ = taught("undo", "--since", "2h", "--actor", "\x1b[2J\nme")

    assert len(out.splitlines()) == 3
    assert "changed since by smtp ?[1J?you" in out
    assert out.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    "arguments",
    [[], ["--yes"], ["--until", "2h"], ["--since", "x"], ["--since", "2h", "--until", "-1h"], ["--id", "x"]],
    ids=" ".join,
)
def test_wrong_usage_is_64(taught: Taught, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        taught("undo", *arguments)

    assert stopped.value.code == 64
