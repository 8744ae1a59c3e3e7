"""The figures of the handbook are those that were measured last."""

from __future__ import annotations

import re

from tests.handbook.pages import ROOT, page

ACCURACY = (ROOT / "tests/benchmarks/ACCURACY.md").read_text()
SPEED = (ROOT / "tests/benchmarks/SPEED.md").read_text()


def test_the_accuracy_is_what_was_measured_last() -> None:
    figures = re.findall(r"\| (\d[\d.]* · [\d./]+ / [\d.]+ · [\d.]+) (?=\|)", page("accuracy.md"))

    assert len(figures) == 6 * 3
    assert [figure for figure in figures if figure not in ACCURACY] == []


def test_the_speed_is_what_was_measured_last() -> None:
    section = (
        page("guides/sizing-and-speed.md").partition("\n## What was measured")[2].partition("\n**The daemon")[0]
    )
    rows = [line for line in section.splitlines() if line.startswith("| ")]

    assert len(rows) > 5
    assert [row for row in rows if row not in SPEED.splitlines()] == []
