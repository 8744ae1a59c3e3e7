"""``nbstream learn`` of a whole mailbox: killed in the middle, run again, taken back."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbstream.cli.command_line import build_parser
from nbstream.cli.commands.learn import _message_source
from nbstream.filter.lesson_groups import GROUP_SIZE
from nbstream.system_users import current_user
from tests.cli.taught import Taught
from tests.harness.algebra import stored, summed
from tests.harness.disputes import DISPUTED, teach_dispute
from tests.harness.filters import make_filter
from tests.harness.redis.redis_server import RedisServer
from tests.harness.samples import samples

COUNT = 10 * GROUP_SIZE


def mailbox(path: Path) -> Path:
    """An mbox of spam, with one message twice."""
    spam = [raw for label, raw in samples(2 * COUNT + 200) if label == "spam"][:COUNT]
    path.write_bytes(b"".join(b"From ann Sat Nov 21 10:00:00 2026\n" + raw + b"\n" for raw in [*spam, spam[0]]))
    return path


def command(config: Path, *words: str | Path) -> Sequence[str]:
    return [sys.executable, "-m", "nbstream.cli", str(words[0]), "-c", str(config), *map(str, words[1:])]


def run(config: Path, *words: str | Path) -> str:
    done = subprocess.run(command(config, *words), capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


def test_one_command_learns_several_classes(shared_redis: RedisServer, tmp_path: Path) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"redis: {{url: '{shared_redis.url}'}}\nmodel: {{name: several}}\nstate_dir: {tmp_path}\n")
    for name in ("prize", "pills", "lunch", "dinner"):
        (tmp_path / name).write_text(f"Subject: {name}\n\nIt is about {name}.\n")
    prize, pills, lunch, dinner = (tmp_path / name for name in ("prize", "pills", "lunch", "dinner"))

    learned = run(config, "learn", "spam", prize, "--and", "ham", lunch, dinner, "--and", "spam", pills)

    assert learned == "2 learned as ham, 2 learned as spam; ham 2/50, spam 2/50 known\n"


def test_the_messages_of_several_classes_come_in_turns(tmp_path: Path) -> None:
    for name in "abcdef":
        (tmp_path / name).write_text(f"Subject: {name}\n\n{name}\n")
    a, b, c, d, e, f = (str(tmp_path / name) for name in "abcdef")
    options = build_parser().parse_args(["learn", "spam", a, b, c, "--and", "ham", d, "--and", "spam", e, f])

    named = [(Path(message.name).name, label) for message, label in _message_source(options)([])]

    assert named == [("a", "spam"), ("d", "ham"), ("e", "spam"), ("b", "spam"), ("f", "spam"), ("c", "spam")]


def test_standard_input_can_be_given_once(taught: Taught, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        taught("learn", "spam", "-", "--and", "ham", "-")

    assert stopped.value.code == 64
    assert "standard input (-) can be given once" in capsys.readouterr().err


def learn(taught: Taught, *words: str, code: int = 0) -> tuple[str, str]:
    return taught("learn", *words, code=code)


BARE_TEXT = "Shall we have lunch on Friday?\n"


def test_a_bare_text_is_learned_and_a_warning_says_how_to_take_it_back(taught: Taught, tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text(BARE_TEXT)

    out, err = learn(taught, "spam", str(tmp_path / "list.txt"))

    assert out.startswith("1 learned as spam: ")
    (command,) = re.findall(
        rf"^nbstream: {tmp_path}/list.txt has no header of a mail and is learned as bare text; "
        r"if it is no message: nbstream (unlearn -c \S+ --id [a-z2-7]{24})\n$",
        err,
    )
    assert taught(*[word for word in command.split() if word not in {"-c", str(taught.config)}]) == (
        "1 unlearned, was learned as spam: P 0.50 -> 0.50, still unsure; ham 0/1, spam 0/1 known\n",
        "",
    )


def test_only_the_option_reinforces(taught: Taught, tmp_path: Path) -> None:
    taught.model(lambda model: teach_dispute(make_filter(model.client), source="cli", actor=current_user()))
    file = tmp_path / "lunch.eml"
    file.write_bytes(DISPUTED.raw)
    before = taught.stored()

    bulk, _ = learn(taught, "ham", str(file))
    assert bulk.startswith("1 already learned as ham, nothing changed: P 0.")
    assert ", because of from:example.com " in bulk
    assert "; to reinforce it: nbstream learn --reinforce; " in bulk
    assert taught.stored() == before

    reinforced, _ = learn(taught, "ham", "--reinforce", str(file))
    assert reinforced.startswith("1 reinforced ham: P 0.")
    assert ", was unsure, now ham; " in reinforced
    again, _ = learn(taught, "ham", "--reinforce", str(file))
    assert again.startswith("1 already learned as ham, nothing changed: P 0.")

    change, *_ = reversed(taught.json("history"))
    assert (change["change"], change["label"], change["former"]) == ("reinforced ham", "ham", "ham")
    undone, _ = taught("undo", "--id", DISPUTED.key, "--label", "ham", "--since", "1m", "--yes")
    assert "  reinforced ham  " in undone


def test_a_kind_is_learned_checked_and_explained(taught: Taught, tmp_path: Path) -> None:
    taught.config.write_text(
        taught.config.read_text().replace("name: test,", "name: test, classes: [ham, news, spam],")
    )
    for number, (label, raw) in enumerate(samples(120)):
        name = label if label == "spam" else ("ham", "news")[number % 2]
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / f"{number}.eml").write_bytes(raw)
    for name in ("ham", "news", "spam"):
        out, _ = taught("learn", name, str(tmp_path / name))
        assert f" learned as {name}; " in out
    message = tmp_path / "message.eml"
    message.write_bytes(next(raw for label, raw in samples(60, seed=9) if label == "ham"))

    checked, _ = taught("check", str(message))
    (as_json,) = taught.json("check", str(message))
    explained, _ = taught("explain", str(message))
    history, _ = taught("history", "--label", "news", "--limit", "1")
    moved, _ = taught("learn", "news", str(tmp_path / "ham"))

    assert re.search(r"  (ham|news) 0\.\d{6}, (ham|news) 0\.\d{6}$", checked.splitlines()[0])
    assert {kind["name"] for kind in as_json["kind"]["kinds"]} == {"ham", "news"}
    assert re.search(r"\nkind     (ham|news) 0\.\d{6}, .*\n  (ham|news): \S+ \+", explained)
    assert "learned news" in history
    assert " relearned as news; " in moved
    assert taught.model(stored) == taught.model(summed)
