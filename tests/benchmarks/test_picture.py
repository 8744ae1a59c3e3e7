"""``make picture`` works, over letters written for tests; and the handbook shows what it makes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.benchmarks.picture import PICTURE, make
from tests.handbook.pages import ROOT, page
from tests.letters import write_corpus


def test_the_picture_is_drawn_from_the_scores_of_evaluate(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    index = write_corpus(tmp_path / "corpus", 40)

    make(index, tmp_path / "a.svg")

    assert "the last 40 messages labelled: " in capsys.readouterr().out
    assert (tmp_path / "a.svg").read_text().rstrip().endswith("</svg>")


def test_the_handbook_shows_it_and_it_is_small() -> None:
    assert f"](../{PICTURE.name})" in page("guides/evaluate-and-tune.md")
    assert PICTURE.parent == ROOT / "docs"
    assert PICTURE.stat().st_size < 60_000
    assert "with strict.yaml" in PICTURE.read_text()
