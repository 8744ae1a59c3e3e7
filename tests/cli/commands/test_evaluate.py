"""``nbstream evaluate`` as a user meets it: what it reads, prints and writes, and what it leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nbstream.cli.main import main
from tests.harness.daemon import DEADLINE_SECONDS, wait_until
from tests.harness.samples import samples, write_corpus

COUNT = 60


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "nb.yaml"
    path.write_text("model: {min_learned: 3}\n")
    return str(path)


@pytest.fixture
def index(tmp_path: Path) -> str:
    return str(write_corpus(tmp_path / "corpus", COUNT))


class Evaluate:
    """Runs the command in this process, and gives back its exit code and what it printed."""

    def __init__(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = config
        self._capsys = capsys

    def __call__(self, *arguments: str | Path) -> tuple[int, str, str]:
        code = main(["evaluate", "-c", self._config, *map(str, arguments)])
        printed = self._capsys.readouterr()
        return code, printed.out, printed.err

    def json(self, *arguments: str | Path) -> dict[str, Any]:
        code, out, err = self(*arguments, "--json")
        assert code == 0, err
        return dict(json.loads(out))


@pytest.fixture
def evaluate(config: str, capsys: pytest.CaptureFixture[str]) -> Evaluate:
    return Evaluate(config, capsys)


def test_two_heaps_are_merged_in_their_order(evaluate: Evaluate, tmp_path: Path) -> None:
    box, folder = tmp_path / "spam.mbox", tmp_path / "ham" / "cur"
    folder.mkdir(parents=True)
    for name in ("new", "tmp"):
        (tmp_path / "ham" / name).mkdir()
    with box.open("wb") as mbox:
        for number, (label, raw) in enumerate(samples(COUNT)):
            if label == "spam":
                mbox.write(b"From x Sat Nov 21 10:00:00 2026\n" + raw + b"\n")
            else:
                (folder / f"{number:03}:2,S").write_bytes(raw)

    code, _, err = evaluate("--spam", box, "--ham", tmp_path / "ham", "--scores", tmp_path / "scores.tsv")

    labels = [line.split("\t")[1] for line in (tmp_path / "scores.tsv").read_text().splitlines()[1:]]
    assert (code, err, len(labels)) == (0, "", COUNT)
    half = labels[: COUNT // 2].count("spam"), labels[COUNT // 2 :].count("spam")
    assert abs(half[0] - half[1]) <= 1


def test_scores_go_to_their_file(evaluate: Evaluate, index: str, tmp_path: Path) -> None:
    code, out, _ = evaluate(index, "--scores", tmp_path / "a.tsv", "--skip", "50")

    lines = (tmp_path / "a.tsv").read_text().splitlines()
    assert code == 0
    assert out.startswith("10 measured: ")
    assert lines[0] == "index\tlabel\tscore\tprobability\tverdict"
    assert [line.split("\t")[0] for line in lines[1:]] == [str(n) for n in range(1, COUNT + 1)]


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--spam", "x"],
        ["index", "--spam", "x", "--ham", "y"],
        ["--spam", "-", "--ham", "x"],
        ["index", "--regime", "sometimes"],
        ["index", "--regime", "inbox:1.5,0.3,50"],
        ["index", "--taught", "5"],
        ["index", "--regime", "first:5", "--taught", "5"],
        ["index", "--label-noise", "nan"],
        ["index", "--limit", "-1"],
        ["index", "--suspects", "a.tsv", "--regime", "errors"],
        ["index", "--suspects", "a.tsv", "--label-noise", "0.1"],
    ],
    ids=" ".join,
)
def test_wrong_usage_is_64(evaluate: Evaluate, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        evaluate(*arguments)

    assert stopped.value.code == 64


def test_what_cannot_be_read_is_66_and_of_two_heaps_the_rest_is_measured(
    evaluate: Evaluate, tmp_path: Path
) -> None:
    (tmp_path / "ham.eml").write_text("Subject: x\n\ny\n")
    (tmp_path / "spam.eml").write_text("Subject: y\n\nx\n")

    assert evaluate(tmp_path / "none")[0] == 66
    (tmp_path / "empty").touch()
    code, out, err = evaluate(tmp_path / "empty")
    assert (code, out, "there is no message to measure" in err) == (66, "", True)
    spam = ("--spam", tmp_path / "gone", tmp_path / "spam.eml")
    code, out, err = evaluate(*spam, "--ham", tmp_path / "ham.eml", "--json")

    assert code == 66
    assert (json.loads(out)["ham"], json.loads(out)["spam"]) == (1, 1)
    assert err == f"nbstream: {tmp_path / 'gone'}: No such file or directory\n"


def test_a_class_without_messages_is_said_once_and_nothing_is_measured(evaluate: Evaluate, tmp_path: Path) -> None:
    (tmp_path / "ham.eml").write_text("Subject: x\n\ny\n")
    for name in ("empty", "empty2"):
        (tmp_path / name).mkdir()
    spam = ("--spam", tmp_path / "empty")
    said = f"nbstream: {tmp_path / 'empty'}: no message in this folder\n"

    assert evaluate(*spam, "--ham", tmp_path / "ham.eml") == (
        *(66, ""),
        f"{said}nbstream: there is no spam message to measure\n",
    )
    assert evaluate(*spam, "--ham", tmp_path / "empty2") == (
        *(66, ""),
        f"{said}nbstream: {tmp_path / 'empty2'}: no message in this folder\n"
        "nbstream: there is no message to measure\n",
    )


def started(words: list[str]) -> subprocess.Popen[str]:
    """The command with signals as on a terminal; in the background or under nohup some are ignored."""
    words = ["env", "--default-signal=INT,TERM,HUP", *words]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def handles(process: int, number: signal.Signals) -> bool:
    """Whether the process has a handler for the signal."""
    status = Path(f"/proc/{process}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGHUP], ids=lambda end: end.name)
def test_an_interrupted_run_is_130_and_writes_no_scores(
    config: str, index: str, tmp_path: Path, end: signal.Signals
) -> None:
    # The same messages over and over: longer than it takes to interrupt them.
    lines = Path(index).read_text()
    Path(index).write_text(lines * 500)
    words = [sys.executable, "-m", "nbstream.cli", "evaluate", "-c", config, index]

    process = started([*words, "--scores", str(tmp_path / "scores.tsv")])
    assert process.stderr
    said = process.stderr.readline()
    wait_until(lambda: handles(process.pid, end))
    process.send_signal(end)
    out, err = process.communicate(timeout=DEADLINE_SECONDS)

    assert (process.returncode, out, said + err) == (130, "", f"{index}: read as an index of messages\n")
    assert not (tmp_path / "scores.tsv").exists()
