"""The committed reference is what the code makes."""

from __future__ import annotations

from tools.reference.pages import ROOT, outdated


def test_the_committed_files_are_what_the_code_makes() -> None:
    names = [str(file.relative_to(ROOT)) for file, _ in outdated()]

    assert names == [], f"run `make reference` and commit {', '.join(names)}: the code has changed"
