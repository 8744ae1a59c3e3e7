"""bogofilter: in bulk where it only checks, a process for each message where it learns what it is sure of (-u).

In bulk mode -u counts every message as many times as there are messages before it, so it is not used there.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.benchmarks.peers.inbox import Labelled
from tests.benchmarks.speed.bogofilter import verdicts
from tests.benchmarks.speed.processes import CannotMeasure, output, program

_SECONDS = 600.0
_OPTIONS = {"spam": "-s", "ham": "-n"}
_TAKE_BACK = {"Spam": "-S", "Ham": "-N"}


class Bogofilter:
    """bogofilter with its word list in ``folder``; with ``autolearn`` it learns what it calls spam or ham (-u)."""

    def __init__(self, folder: Path, *, autolearn: bool) -> None:
        self._program = program("bogofilter", "bogofilter")
        self._folder = folder
        self._autolearn = autolearn
        self._autolearned: dict[Path, str] = {}

    def learn_all(self, messages: Sequence[Labelled]) -> None:
        """Learn the messages: all spam, then all ham, because bogofilter does not depend on the order."""
        for label, option in _OPTIONS.items():
            self._bulk(option, [path for message_label, path in messages if message_label == label])

    def learn(self, label: str, path: Path) -> None:
        """Learn one message, and take back what was learned of it by -u."""
        taken_back = _TAKE_BACK.get(self._autolearned.pop(path, ""))
        self._run([*([taken_back] if taken_back else []), _OPTIONS[label], "-I", str(path)])

    def check(self, paths: Sequence[Path]) -> list[bool]:
        """Return of each message whether it is called spam; unsure mail goes to the inbox."""
        if self._autolearn:
            return [self._check_and_learn(path) for path in paths]
        found = verdicts(self._bulk("-v", paths))
        return [found[str(path)] == "Spam" for path in paths]

    def _check_and_learn(self, path: Path) -> bool:
        (verdict,) = verdicts(f"{path} {self._run(['-u', '-v', '-I', str(path)])}").values()
        self._autolearned[path] = verdict
        return verdict == "Spam"

    def _bulk(self, option: str, paths: Sequence[Path]) -> str:
        return self._run([option, "-b"], "".join(f"{path}\n" for path in paths)) if paths else ""

    def _run(self, options: Sequence[str], names: str | None = None) -> str:
        words = [self._program, "-d", str(self._folder), *options]
        done = subprocess.run(words, input=names, capture_output=True, text=True, timeout=_SECONDS, check=False)
        if done.returncode > 2:  # 0 to 2 are verdicts
            raise CannotMeasure(f"bogofilter: {done.stderr.strip()[-200:]}")
        return done.stdout


def version() -> str:
    """Return the version as the program prints it."""
    return output(program("bogofilter", "bogofilter"), "-V").splitlines()[0]
