"""The manual pages: groff has no warning about them, and man finds them."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

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
