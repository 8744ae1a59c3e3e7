"""``nbstream history`` as a user meets it, over a real Redis."""

from __future__ import annotations

import re
from datetime import UTC, datetime

import pytest

from tests.cli.taught import Taught

PRIZE = b"Subject: prize\n\nClaim your free prize now\n"
LUNCH = b"Subject: lunch\n\nShall we have lunch on Friday?\n"


def now() -> datetime:
    """By the user's clock."""
    return datetime.now(UTC).astimezone()


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


def test_nobody_can_move_the_terminal_or_forge_a_line(taught: Taught) -> None:
    taught.teach(PRIZE, "spam", "\x1b]0;owned\x07\n2026-01-01T00:00:00  x  learned ham\u202e")

    out, _ = taught("history")

    assert out.count("\n") == 1
    assert out.rstrip("\n").isprintable()
    assert "]0;owned" in out
    assert taught.json("history", "--actor", "ann") == []


def test_a_label_that_is_no_class_is_wrong_usage_unless_the_history_has_it(taught: Taught) -> None:
    configured = taught.config.read_text()
    taught.config.write_text(configured.replace("name: test,", "name: test, classes: [ham, news, spam],"))
    message = taught.config.parent / "lunch.eml"
    message.write_bytes(LUNCH)
    taught("learn", "news", str(message))
    taught.config.write_text(configured)

    assert "learned news" in taught("history", "--label", "news")[0]
    assert taught("history", "--label", "news", "--actor", "x")[1].startswith("nbstream: no such change")
    assert taught("history", "--label", "spam")[1].startswith("nbstream: no such change")
    for command in (("history",), ("undo", "--since", "1h")):
        with pytest.raises(SystemExit) as stopped:
            taught(*command, "--label", "bogus")
        assert stopped.value.code == 64
