"""Shell completion, in real shells."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.completion import INSTALLED, script

BASH = """
source "$1"; shift
function=$(complete -p nbstream | grep -o -- '-F [^ ]*' | cut -c4-)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
"$function"
printf '%s\\n' "${COMPREPLY[@]}"
"""

LINES = pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("nbstream lea", {"learn"}),
        ("nbstream learn ", {"spam", "ham"}),
        ("nbstream undo --si", {"--since"}),
        ("nbstream quarantine ", {"list", "show", "release"}),
        ("nbstream quarantine release --ag", {"--again"}),
        ("nbstream list add ", {"allow", "block"}),
        ("nbstream check --json pri", {"prize.eml"}),
        ("nbstream learn spam pri", {"prize.eml"}),
        ("nbstream status -c pri", {"prize.eml"}),
    ],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file and the completion scripts, each named after its shell."""
    (tmp_path / "prize.eml").touch()
    for shell in INSTALLED:
        (tmp_path / shell).write_text(script(shell))
    return tmp_path


def output_lines(words: list[str], folder: Path) -> list[str]:
    result = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.splitlines()


@LINES
def test_bash_completes(line: str, offered: set[str], program: Callable[[str], str], folder: Path) -> None:
    words = [program("bash"), "--norc", "-c", BASH, "bash", "./bash", *line.split(" ")]

    assert set(output_lines(words, folder)) == offered


@LINES
def test_fish_completes(line: str, offered: set[str], program: Callable[[str], str], folder: Path) -> None:
    words = [program("fish"), "--no-config", "-c", 'source fish; complete --do-complete "$argv"', line]

    assert {line.partition("\t")[0] for line in output_lines(words, folder)} == offered


def test_zsh_accepts_the_script(program: Callable[[str], str], folder: Path) -> None:
    assert output_lines([program("zsh"), "-f", "-n", "zsh"], folder) == []
    assert (folder / "zsh").read_text().startswith("#compdef nbstream\n")
