"""The command line as a user meets it: output, exit codes, an embedded Redis that comes and goes."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from redis import Redis

from nbstream.cli.main import main
from tests.harness.redis.redis_server import RedisServer

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
        f"state_dir: {tmp_path / 'state'}\nredis: {{url: '{shared_redis.url}'}}\nmodel: {{min_learned: 3}}\n"
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


def test_spam_is_exit_code_1_and_anything_else_0(run: Run, tmp_path: Path) -> None:
    run("learn", "spam", folder(tmp_path / "spam", PRIZE, 60))
    run("learn", "ham", folder(tmp_path / "ham", LUNCH, 60))

    spam = run("check", "-", text=PRIZE.format("x", "x"))
    ham = run("check", "-", text=LUNCH.format("x", "x"))

    assert (spam.returncode, spam.stdout[:4]) == (1, "spam")
    assert (ham.returncode, ham.stdout[:3]) == (0, "ham")


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
