"""Teaches the real filters."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from nbstream.bayes.counts import CLASSES
from nbstream.evaluation.streams import IndexLine
from tests.benchmarks.speed.processes import program

SECONDS = 7200.0
"""The most that a program may take."""


def teach_bogofilter(folder: Path, lines: Sequence[IndexLine]) -> Path:
    """Teach a new bogofilter in ``folder`` all spam, then all ham; return its word list."""
    for label, option in (("spam", "-s"), ("ham", "-n")):
        words = [program("bogofilter", "bogofilter"), "-d", str(folder), option, "-b"]
        subprocess.run(words, input=_names(lines, label), text=True, check=True, timeout=SECONDS)
    return folder / "wordlist.db"


def spamassassin_database(folder: Path, lines: Sequence[IndexLine]) -> Path:
    """Teach a new SpamAssassin in ``folder`` all ham, then all spam; return the path of its database."""
    database = folder / "bayes"
    common = [program("sa-learn", "spamassassin"), "--local", "--dbpath", str(database)]
    for label in CLASSES:
        files = folder / f"{label}.files"
        files.write_text(_names(lines, label))
        _run([*common, "--no-sync", f"--{label}", "-f", str(files)])
    _run([*common, "--sync"])
    return database


def _names(lines: Sequence[IndexLine], label: str) -> str:
    return "".join(f"{line.path}\n" for line in lines if line.label == label)


def _run(words: Sequence[str]) -> None:
    subprocess.run(words, check=True, timeout=SECONDS, capture_output=True)
