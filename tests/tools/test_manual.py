"""The manual pages: groff has no warning about them, and man finds them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.reference import manual
from tools.reference.pages import ROOT

FILES = (ROOT / "share/man/man1/nbstream.1", ROOT / "share/man/man5/nbstream.yaml.5")


def rendered(program: Callable[[str], str], name: str) -> str:
    """Return the page as a reader sees it, with very long lines."""
    words = [program("groff"), "-ww", "-man", "-Tutf8", "-P-cbou", "-rLL=2000n", name]
    result = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stderr) == (0, "")
    return re.sub(" +", " ", result.stdout)


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.name))
def test_groff_has_no_warning(file: Path, program: Callable[[str], str]) -> None:
    assert "NAME\n nbstream" in rendered(program, str(file))


def test_man_finds_the_name_and_the_purpose(program: Callable[[str], str]) -> None:
    result = subprocess.run(
        [program("lexgrog"), *map(str, FILES)], capture_output=True, text=True, timeout=60, check=False
    )

    assert result.returncode == 0
    assert result.stdout.splitlines() == [
        f'{FILES[0]}: "nbstream - a spam filter daemon with an online naive Bayes"',
        f'{FILES[1]}: "nbstream.yaml - the configuration of nbstream(1)"',
    ]


def test_special_characters_of_roff_are_escaped() -> None:
    assert list(manual._lines(r"`.x` is ~ and \ and 'y'. A *b* of [c](d.md).")) == [
        r"\fB.x\fR is \(ti and \e and \(aqy\(aq.",
        r"A b of c.",
    ]
    assert list(manual._lines(".x")) == [r"\&.x"]
