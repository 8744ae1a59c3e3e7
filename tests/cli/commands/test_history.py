"""``nbstream history`` as a user meets it, over a real Redis."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest

from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"


def now() -> datetime:
    """By the user's clock."""
    return datetime.now(UTC).astimezone()


def test_an_empty_history_says_so(taught: Taught) -> None:
    assert taught("history") == ("", "nbstream: no change in the history of model 'test'\n")
    assert taught("history", "--json", "--since", "2h")[0] == ""


def test_each_change_is_one_line_and_the_newest_is_last(taught: Taught) -> None:
    started = now().replace(microsecond=0)
    prize = taught.teach(PRIZE, "spam", "192.0.2.1")
    lunch = taught.teach(LUNCH, "ham", "ann", "cli")
    taught.teach(PRIZE, "ham", "ann", "cli")
    taught.teach(PRIZE, None, "ben", "cli")

    lines = [line.split("  ") for line in taught("history")[0].splitlines()]

    assert [line[1:4] for line in lines] == [
        [prize, "learned spam", "smtp 192.0.2.1"],
        [lunch, "learned ham", "cli ann"],
        [prize, "relearned spam -> ham", "cli ann"],
        [prize, "unlearned ham", "cli ben"],
    ]
    assert all(started <= datetime.fromisoformat(line[0]) <= now() for line in lines)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d", line[0]) for line in lines)
    assert re.fullmatch(r"0\.5000 unsure -> 0\.\d{4} unsure", lines[0][4])
    assert all(re.fullmatch(r"[01]\.\d{4} [a-z]+ -> [01]\.\d{4} [a-z]+", line[4]) for line in lines)


def test_json_says_the_same_and_no_less(taught: Taught) -> None:
    prize = taught.teach(PRIZE, "spam", "192.0.2.1")
    taught.teach(PRIZE, "ham", "ann", "cli")

    learned, relearned = taught.json("history")

    assert learned["before"] == {"probability": pytest.approx(0.5), "verdict": "unsure"}
    assert learned["after"]["probability"] > 0.5
    assert datetime.fromisoformat(learned["time"]).utcoffset() is not None
    assert {name: relearned[name] for name in ("id", "change", "label", "former", "source", "actor")} == {
        **{"id": prize, "change": "relearned spam -> ham", "label": "ham", "former": "spam"},
        **{"source": "cli", "actor": "ann"},
    }


def test_it_is_limited_by_actor_label_time_and_number(taught: Taught) -> None:
    taught.teach(PRIZE, "spam", "ann")
    taught.teach(LUNCH, "ham", "ben")
    taught.teach(PRIZE, None, "ben")

    def changes(*arguments: str) -> list[str]:
        return [line["change"] for line in taught.json("history", *arguments)]

    assert changes("--actor", "ben") == ["learned ham", "unlearned spam"]
    assert changes("--label", "spam") == ["learned spam", "unlearned spam"]
    assert changes("--limit", "2") == ["learned ham", "unlearned spam"]
    assert changes("--limit", "1", "--label", "ham") == ["learned ham"]
    assert changes("--limit", "0") == []
    assert len(changes("--since", "1m")) == len(changes("--since", "2000-01-01")) == 3
    first = taught("history")[0].split("  ")[0]
    assert len(changes("--since", first)) == 3
    tomorrow = now() + timedelta(days=1)
    assert changes("--since", tomorrow.isoformat()) == []


def test_it_is_limited_by_source_message_and_end(taught: Taught) -> None:
    prize = taught.teach(PRIZE, "spam", "ann", "page")
    taught.teach(LUNCH, "ham", "ann", "smtp")

    def changes(*arguments: str) -> list[str]:
        return [line["change"] for line in taught.json("history", *arguments)]

    assert changes("--source", "page") == changes("--id", prize) == ["learned spam"]
    assert changes("--source", "pag") == changes("--until", "1h") == []
    assert len(changes("--until", (now() + timedelta(days=1)).isoformat())) == 2


def test_nobody_can_move_the_terminal_or_forge_a_line(taught: Taught) -> None:
    taught.teach(PRIZE, "spam", "\x1b]0;owned\x07\n2026-01-01T00:00:00  x  learned ham\u202e")

    out, _ = taught("history")

    assert out.count("\n") == 1
    assert out.rstrip("\n").isprintable()
    assert "]0;owned" in out
    assert taught.json("history", "--actor", "ann") == []


@pytest.mark.parametrize(
    "arguments",
    [["--since", "soon"], ["--since", "2"], ["--since", "99999-01-01"], ["--label", "Eggs"], ["--limit", "-1"]],
    ids=" ".join,
)
def test_wrong_usage_is_64(taught: Taught, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        taught("history", *arguments)

    assert stopped.value.code == 64
