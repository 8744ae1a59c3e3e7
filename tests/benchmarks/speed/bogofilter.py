"""bogofilter: one process that judges many files or learns a mailbox, or one process for each message."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.speed.bench import Bench, Labelled
from tests.benchmarks.speed.processes import CannotMeasure, children_cpu_seconds, output, program, run_quietly

_VERDICT = re.compile(r"^(?P<file>.+) X-Bogosity: (?P<verdict>Spam|Ham|Unsure), ", re.MULTILINE)
_SECONDS = 300.0
_LEARN = {"spam": "-s", "ham": "-n"}


class Bogofilter:
    """bogofilter with its word list in ``folder``, which is made if it is missing; raises ``CannotMeasure``."""

    def __init__(self, folder: Path, messages: Sequence[Labelled]) -> None:
        self._program = program("bogofilter", "bogofilter")
        self._folder = folder
        if not folder.exists():
            folder.mkdir()
            self.learn(messages)

    @classmethod
    def copy_of_taught(cls, bench: Bench) -> Bogofilter:
        """Return one with a copy of the word list that all parts share."""
        cls(bench.shared / "bogofilter", bench.taught)  # makes it where it is missing
        folder = bench.new_folder("bogofilter") / "words"
        shutil.copytree(bench.shared / "bogofilter", folder)
        return cls(folder, ())

    @property
    def version(self) -> str:
        """The version as the program prints it."""
        return output(self._program, "-V").splitlines()[0]

    def learn(self, messages: Sequence[Labelled]) -> None:
        """Learn the messages: all spam, then all ham, because bogofilter does not depend on the order."""
        for label, option in _LEARN.items():
            self._run(option, [path for message_label, path in messages if message_label == label])

    def learn_mbox(self, label: str, mbox: Path) -> None:
        """Learn all messages of a mailbox."""
        run_quietly(self._program, "-d", self._folder, _LEARN[label], "-M", "-I", mbox)

    def learn_alone(self, label: str, message: Path) -> None:
        """Learn one message, by a process of its own."""
        run_quietly(self._program, "-d", self._folder, _LEARN[label], "-I", message)

    def check(self, messages: Sequence[Labelled]) -> tuple[float, dict[str, str]]:
        """Return the CPU seconds of checking the messages, user and system, and the verdicts by file."""
        before = children_cpu_seconds()
        text = self._run("-v", [path for _, path in messages])
        return children_cpu_seconds() - before, verdicts(text)

    def _run(self, option: str, paths: Sequence[Path]) -> str:
        words = [self._program, "-d", str(self._folder), option, "-b"]
        names = "".join(f"{path}\n" for path in paths)
        done = subprocess.run(words, input=names, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode > 2:  # 0 to 2 are verdicts
            raise CannotMeasure(f"bogofilter: {done.stderr.strip()[-200:]}")
        return done.stdout


def verdicts(text: str) -> dict[str, str]:
    """Return the verdict on each file: Spam, Ham or Unsure."""
    return {match["file"]: match["verdict"] for match in _VERDICT.finditer(text)}
