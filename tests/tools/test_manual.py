"""The manual pages: they are complete, and groff has no warning about them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tools.reference import manual
from tools.reference.commands import commands
from tools.reference.pages import ROOT
from tools.reference.settings import sections

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


def test_every_command_and_its_arguments_are_on_the_page(program: Callable[[str], str]) -> None:
    page = rendered(program, str(FILES[0]))

    for command in commands():
        assert f"\n nbstream {command.name}\n" in page
        assert f"\n {re.sub(' +', ' ', command.usage)}\n" in page
        assert [
            words for words in (argument.words for argument in command.arguments) if f"\n {words}" not in page
        ] == []


def test_every_setting_is_on_the_page(program: Callable[[str], str]) -> None:
    page = rendered(program, str(FILES[1]))
    keys = [setting.key for section in sections() for setting in section.settings]

    assert len(keys) > 50
    # groff sets a short key and its text on one line.
    assert [key for key in keys if not re.search(rf"\n {re.escape(key)}\s", page)] == []
    assert "~/.local/state/nbstream" in page


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
