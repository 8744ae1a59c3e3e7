"""bogofilter in bulk mode: one process that reads file names and judges each file."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.speed.bench import Labelled
from tests.benchmarks.speed.processes import CannotMeasure, children_cpu_seconds, output, program

_VERDICT = re.compile(r"^(?P<file>.+) X-Bogosity: (?P<verdict>Spam|Ham|Unsure), ", re.MULTILINE)
_SECONDS = 300.0


class Bogofilter:
    """A word list of its own, in a ``kept`` folder that is made where it is missing. Raises ``CannotMeasure``."""

    def __init__(self, kept: Path, messages: Sequence[Labelled]) -> None:
        self._program = program("bogofilter", "bogofilter")
        self._folder = kept
        if not kept.exists():
            kept.mkdir()
            self._learn(messages)

    @property
    def version(self) -> str:
        """As the program gives it."""
        return output(self._program, "-V").splitlines()[0]

    def _learn(self, messages: Sequence[Labelled]) -> None:
        """Teach the messages: all spam, then all ham; to bogofilter the order is nothing."""
        for label, option in (("spam", "-s"), ("ham", "-n")):
            self._run(option, [path for each, path in messages if each == label])

    def check(self, messages: Sequence[Labelled]) -> tuple[float, dict[str, str]]:
        """The CPU seconds of judging the messages, user and system, and the verdicts by file."""
        before = children_cpu_seconds()
        said = self._run("-v", [path for _, path in messages])
        return children_cpu_seconds() - before, verdicts(said)

    def _run(self, option: str, paths: Sequence[Path]) -> str:
        words = [self._program, "-d", str(self._folder), option, "-b"]
        names = "".join(f"{path}\n" for path in paths)
        done = subprocess.run(words, input=names, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode > 2:  # 0 to 2 are verdicts
            raise CannotMeasure(f"bogofilter: {done.stderr.strip()[-200:]}")
        return done.stdout


def verdicts(said: str) -> dict[str, str]:
    """The verdict on each file: Spam, Ham or Unsure."""
    return {found["file"]: found["verdict"] for found in _VERDICT.finditer(said)}
