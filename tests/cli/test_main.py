"""The command line as a user meets it: output, exit codes, an embedded Redis that comes and goes."""

from __future__ import annotations

import io
import json
import os
import pwd
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from nbstream.cli.main import main
from nbstream.engine.choice import ENVIRONMENT
from tests.cli.taught import Taught
from tests.conftest import RedisServer

Run = Callable[..., "subprocess.CompletedProcess[str]"]

PRIZE = "Subject: prize {}\n\nClaim your free prize now, winner {}\n"
LUNCH = "Subject: lunch {}\n\nShall we have lunch on Friday, Ann {}\n"


def process(*words: str | Path, text: str = "") -> subprocess.CompletedProcess[str]:
    """Run a command as a process."""
    words = (sys.executable, "-m", "nbstream.cli", *words)
    return subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def run(
    tmp_path: Path,
    shared_redis: RedisServer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Run:
    """Run a command in this process, on an empty model."""
    with Redis(unix_socket_path=str(shared_redis.socket)) as client:
        client.flushall()
    config = tmp_path / "nb.yaml"
    config.write_text(
        f"state_dir: {tmp_path / 'state'}\nredis: {{url: '{shared_redis.url}'}}\n"
        "model: {min_learned: {spam: 3, ham: 3}}\n"
    )

    def command(*arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
        code = exit_code_of([arguments[0], "-c", str(config), *arguments[1:]])
        printed = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, code, printed.out, printed.err)

    return command


def exit_code_of(words: list[str]) -> int:
    """What a command ends with; argparse ends the process itself."""
    try:
        return main(words)
    except SystemExit as end:
        return int(end.code or 0)


def folder(path: Path, template: str, count: int) -> str:
    path.mkdir()
    for number in range(count):
        (path / f"{number}.eml").write_text(template.format(number, number))
    return str(path)


@pytest.mark.parametrize(
    ("words", "output"), [("learn spam", "nothing learned\n"), ("unlearn", "nothing unlearned\n")]
)
def test_what_cannot_be_read_changes_nothing_and_says_so(
    words: str, output: str, run: Run, tmp_path: Path
) -> None:
    answer = run(*words.split(), str(tmp_path / "away"))

    assert (answer.returncode, answer.stdout) == (66, output)


def test_what_a_command_learned_in_a_redis_that_it_started_is_there_for_the_next(
    tmp_path: Path, redis_binary: Path
) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(f"state_dir: {tmp_path / 'state'}\n")

    assert process("learn", "-c", config, "spam", "-", text=PRIZE).stdout.startswith("1 learned as spam: ")
    assert process("learn", "-c", config, "spam", "-", text=PRIZE).stdout.startswith(
        "1 already learned as spam, nothing"
    )


def test_teach_check_take_back(run: Run, tmp_path: Path) -> None:
    spam, ham = folder(tmp_path / "spam", PRIZE, 4), folder(tmp_path / "ham", LUNCH, 4)

    learned = run("learn", "spam", spam)
    assert learned.returncode == 0
    assert learned.stdout == "4 learned as spam; ham 0/3 known\n"
    assert run("learn", "ham", ham).stdout == "4 learned as ham; ham 4, spam 4 known\n"
    assert run("learn", "spam", spam).stdout.startswith("4 already learned as spam; ")

    checked = run("check", "--json", "-", text=PRIZE.format(9, 9))
    line = json.loads(checked.stdout)
    assert set(line) == {"path", "id", "verdict", "probability", "score", "reason", "clues"}
    assert line["probability"] > 0.5
    assert line["score"] > 0

    assert run("learn", "ham", f"{spam}/0.eml").stdout.startswith("1 relearned as ham, was learned as spam: P ")
    assert run("unlearn", f"{spam}/0.eml").stdout.startswith("1 unlearned, was learned as ham: P ")
    assert run("unlearn", f"{spam}/0.eml").stdout.startswith("1 unknown, nothing changed")

    status = json.loads(run("status", "--json").stdout)
    assert status["learned"] == {"ham": 4, "spam": 3}
    assert status["state"] == "ready"
    assert status["daemon_pid"] is None
    assert status["spool"] == {"waiting": 0, "oldest_seconds": 0, "failed": 0}
    assert "ready (learned/needed: spam 3/3, ham 4/3)" in run("status").stdout


def test_an_id_teaches_relearns_and_takes_back_what_was_learned(run: Run) -> None:
    run("learn", "spam", "-", text=PRIZE.format(1, 1))
    message_id = json.loads(run("check", "--json", "-", text=PRIZE.format(1, 1)).stdout)["id"]

    assert run("learn", "ham", "--id", message_id).stdout.startswith("1 relearned as ham, was learned as spam: P ")
    assert run("learn", "ham", "--id", message_id, message_id).stdout == (
        "2 already learned as ham; ham 1/3, spam 0/3 known\n"
    )
    assert run("unlearn", "--id", message_id).stdout.startswith("1 unlearned, was learned as ham: P ")
    assert json.loads(run("status", "--json").stdout)["learned"] == {"ham": 0, "spam": 0}

    forgotten = run("unlearn", "--id", message_id)
    assert (forgotten.returncode, forgotten.stdout) == (66, "nothing unlearned\n")
    assert forgotten.stderr == (
        f"nbstream: {message_id}: unknown id, no daemon remembers it; give the message itself\n"
    )


def test_what_stands_beside_an_unknown_id_is_learned_all_the_same(run: Run) -> None:
    result = run("learn", "spam", "-", "--id", "a" * 24, text=PRIZE)

    assert result.returncode == 66
    assert result.stdout.startswith("1 learned as spam: P 0.50 -> ")


def test_who_taught_is_the_user_of_the_system(run: Run, tmp_path: Path, own_redis: RedisServer) -> None:
    (tmp_path / "nb.yaml").write_text(f"redis: {{url: '{own_redis.url}'}}\n")
    run("learn", "spam", "-", text=PRIZE)

    with Redis(unix_socket_path=str(own_redis.socket)) as client:
        entries: Any = client.xrevrange("nbstream:{default}:history")

    assert (entries[0][1][b"source"], entries[0][1][b"actor"]) == (
        b"cli",
        f"user {pwd.getpwuid(os.getuid()).pw_name}".encode(),
    )


def test_whom_it_was_taught_for_stands_beside_the_user(taught: Taught, tmp_path: Path) -> None:
    (tmp_path / "prize.eml").write_text(PRIZE)

    taught("learn", "spam", str(tmp_path / "prize.eml"), "--for", "ann@example.org")

    user = f"user {pwd.getpwuid(os.getuid()).pw_name}"
    assert [line["actor"] for line in taught.json("history")] == [f"{user} for ann@example.org"]
    out, _ = taught("undo", "--since", "2h", "--actor", f"{user} for ann@example.org")
    assert "changes: 1 would be taken back" in out


@pytest.mark.parametrize("name", ["", "a" * 101, "ann\nbob", "ann\x1b[31m"])
def test_a_name_of_a_person_is_one_short_line(run: Run, name: str) -> None:
    assert run("learn", "spam", "-", "--for", name, text=PRIZE).returncode == 64


@pytest.mark.parametrize("words", [["learn", "spam"], ["unlearn"], ["learn", "spam", "--id", "A" * 24]])
def test_neither_a_path_nor_an_id_is_wrong_usage(run: Run, words: list[str]) -> None:
    assert run(*words).returncode == 64


@pytest.mark.parametrize("words", [["--all"], ["--password-file", "x"], ["--ca-file", "x"]])
def test_what_is_for_imap_alone_is_wrong_usage_without_it(run: Run, words: list[str]) -> None:
    wrong = run("learn", "spam", "-", *words, text=PRIZE)
    assert wrong.returncode == 64
    assert "only for --imap" in wrong.stderr


def test_spam_is_exit_code_1_and_anything_else_0(run: Run, tmp_path: Path) -> None:
    run("learn", "spam", folder(tmp_path / "spam", PRIZE, 60))
    run("learn", "ham", folder(tmp_path / "ham", LUNCH, 60))

    spam = run("check", "-", text=PRIZE.format("x", "x"))
    ham = run("check", "-", text=LUNCH.format("x", "x"))

    assert (spam.returncode, spam.stdout[:4]) == (1, "spam")
    assert (ham.returncode, ham.stdout[:3]) == (0, "ham")


def test_a_message_cannot_move_the_terminal(run: Run) -> None:
    run("learn", "spam", "-", text="Subject: \x1b[2Jx\n\n\x1b]0;owned\x07\n")

    assert "\x1b" not in run("check", "-", text="Subject: \x1b[2Jx\n\n\x1b]0;owned\x07\n").stdout


def test_status_shows_the_thresholds_of_recipients_that_have_others(run: Run, tmp_path: Path) -> None:
    with (tmp_path / "nb.yaml").open("a") as config:
        config.write("verdict: {reject: 0.99}\nrecipients:\n")
        config.write("- {match: '*@a.example', verdict: {max_false_positive_rate: 0.01, reject: null}}\n")
        config.write("- {match: '*@b.example', actions: {spam: quarantine}}\n")

    lines = run("status").stdout.splitlines()
    output = json.loads(run("status", "--json").stdout)

    assert lines[1:3] == [
        "verdict  unsure from 0.5, spam from 0.99, refused from 0.99",
        "         *@a.example: unsure from 0.5, nothing is called spam; needs 299 more ham to promise 1 %",
    ]
    assert output["reject_from"] == 0.99
    assert [(entry["match"], entry["spam_from"]) for entry in output["recipients"]] == [("*@a.example", None)]


@pytest.mark.parametrize("words", [("check",), ("explain",), ("learn", "spam"), ("evaluate",), ("unlearn",)])
def test_a_file_name_cannot_move_the_terminal(run: Run, words: tuple[str, ...]) -> None:
    said = run(*words, "/no/\x1b[2J\x9b.eml").stderr

    assert "/no/?[2J?.eml: No such file" in said
    assert said.replace("\n", "").isprintable()


def test_an_unreadable_path_is_66_and_the_others_are_done(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.eml").write_text(PRIZE)

    result = run("learn", "spam", str(tmp_path / "no"), str(tmp_path / "a.eml"))

    assert result.returncode == 66
    assert "No such file" in result.stderr
    assert result.stdout.startswith("1 learned as spam")


def test_redis_away_is_75(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nb.yaml").write_text(f"redis: {{url: 'unix://{tmp_path}/nobody.sock'}}\n")

    result = run("learn", "spam", "-", text="x")

    assert result.returncode == 75
    assert result.stderr.startswith("nbstream: Redis: ")


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [("verdict: {spam: 0.3}", 78, "verdict.spam: found 0.3, must be at least verdict.unsure"), ("", 0, "ok")],
)
def test_config_check_says_what_is_wrong_without_starting(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, code: int, said: str
) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text(text)

    assert main(["config", "check", str(config)]) == code
    assert said in "".join(capsys.readouterr())


def test_config_check_refuses_an_engine_that_cannot_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "nb.yaml"
    config.write_text("engine: auto")
    monkeypatch.setenv(ENVIRONMENT, "steam")

    assert main(["config", "check", str(config)]) == 78
    assert "NBSTREAM_ENGINE=steam: must be auto, python or native" in capsys.readouterr().err


def test_status_says_of_a_broken_file_that_a_daemon_does_not_go_by_it(run: Run, tmp_path: Path) -> None:
    (tmp_path / "nb.yaml").write_text("verdict: {spam: 0.3}")

    result = run("status")

    assert result.returncode == 78
    answer, output = result.stderr.splitlines()
    assert "verdict.spam: found 0.3" in answer
    assert (
        output
        == "a daemon that runs keeps the settings that it has read before; nothing else is known without the file"
    )


def test_wrong_usage_is_64_and_help_is_0() -> None:
    wrong, right = process("learn", "eggs", "-"), process("--help")

    assert (wrong.returncode, right.returncode) == (64, 0)
    assert all(
        word in right.stdout for word in ("serve", "check", "learn", "unlearn", "status", "config", "replay")
    )


def test_a_reader_that_goes_away_is_no_error(run: Run, tmp_path: Path) -> None:
    spam = folder(tmp_path / "spam", PRIZE, 30)
    reading, writing = os.pipe()
    os.close(reading)

    result = subprocess.run(
        [sys.executable, "-m", "nbstream.cli", "check", "-c", tmp_path / "nb.yaml", spam],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(writing)

    assert (result.returncode, result.stderr) == (74, "")
