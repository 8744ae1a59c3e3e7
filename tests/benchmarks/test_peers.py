"""``make peers`` works: the regime is that of ``nbstream evaluate``, and a missing filter is skipped visibly."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tarfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from nbstream.evaluation.regimes import InboxHabits, LabelledCheck, parse_regime
from nbstream.evaluation.run import draw_habits
from nbstream.filter import Check
from nbstream.mail.message import Message
from nbstream.policy.verdict import ModelState, Thresholds, Verdict
from tests.benchmarks.peers.__main__ import KINDS
from tests.benchmarks.peers.inbox import Labelled, run_inbox
from tests.benchmarks.plan import TREC
from tests.benchmarks.speed.processes import CannotMeasure
from tests.letters import letters, write_corpus

ROOT = Path(__file__).parents[2]


class ScriptedPeer:
    """A filter whose verdicts are written down, and which writes down all that it is asked."""

    def __init__(self, junk: dict[Path, bool]) -> None:
        self._junk = junk
        self.taught: list[Labelled] = []
        self.log: list[str] = []

    def learn_all(self, messages: Sequence[Labelled]) -> None:
        self.taught += messages

    def learn(self, label: str, path: Path) -> None:
        self.log.append(f"learn {label} {path}")

    def check(self, paths: Sequence[Path]) -> list[bool]:
        self.log += [f"check {path}" for path in paths]
        return [self._junk[path] for path in paths]


def log_of_evaluate(messages: Sequence[Labelled], junk: dict[Path, bool], taught: int, seed: int) -> list[str]:
    """What the regime of ``nbstream evaluate`` checks and learns after the taught messages."""
    regime, log = parse_regime("inbox:0.5,0.4,7", taught), []
    for position, ((label, path), draw) in enumerate(zip(messages, draw_habits(seed), strict=False), start=1):
        verdict = Verdict.SPAM if junk[path] else Verdict.HAM
        check = Check("id", verdict, 0.5, 0.0, "", ModelState({}), (), Thresholds())
        due = regime(LabelledCheck(Message.from_text(str(path)), label, check, position, draw))
        if position > taught:
            log.append(f"check {path}")
            log += [f"learn {case.label} {case.message.raw.decode()}" for case in due]
    return log


@pytest.mark.parametrize("seed", range(5))
def test_the_regime_is_that_of_evaluate(seed: int) -> None:
    draw = random.Random(seed)
    messages = [(draw.choice(("spam", "ham")), Path(f"{number}.eml")) for number in range(200)]
    junk = {path: draw.random() < (0.8 if label == "spam" else 0.2) for label, path in messages}
    peer = ScriptedPeer(junk)

    counts = run_inbox(peer, messages, 30, seed, InboxHabits(0.5, 0.4, 7))

    assert peer.taught == messages[:30]
    assert peer.log == log_of_evaluate(messages, junk, 30, seed)
    assert counts.corrections == sum(line.startswith("learn") for line in peer.log) > 10
    in_junk = [label for label, path in messages[30:] if junk[path]]
    assert (counts.ham_in_junk, counts.spam - counts.spam_in_inbox) == (
        in_junk.count("ham"),
        in_junk.count("spam"),
    )


@pytest.mark.soak  # it runs the programs of others
@pytest.mark.parametrize("name", KINDS)
def test_a_filter_that_is_installed_is_taught_and_asked(name: str, tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "corpus", 130)
    messages = [(label, index.parent / f"{number}.eml") for number, (label, _) in enumerate(letters(130))]
    (tmp_path / "peer").mkdir()

    try:
        with KINDS[name].run(tmp_path / "peer", True) as peer:
            counts = run_inbox(peer, messages, 120, 0, InboxHabits(1.0, 1.0, 0))
    except CannotMeasure as error:
        pytest.skip(str(error))

    assert counts.ham + counts.spam == 10
    assert counts.ham_in_junk == 0
    assert counts.corrections == counts.spam_in_inbox


def test_what_is_missing_is_skipped_visibly(tmp_path: Path) -> None:
    index = write_corpus(tmp_path / "trec07p-b", 3)
    with tarfile.open(tmp_path / "trec07p-b.tar.xz", "w:xz") as archive:
        archive.add(index.parent, "trec07p-b")
    command = [sys.executable, "-m", "tests.benchmarks.peers", str(tmp_path), "bogofilter"]
    nowhere = {**os.environ, "PATH": str(tmp_path)}

    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=nowhere)

    assert done.returncode == 0
    assert f"skipped: {TREC}: {tmp_path} has no trec07p-20k.tar.xz" in done.stderr
    assert "skipped: bogofilter, trec07p-b: no bogofilter: apt install bogofilter" in done.stderr
