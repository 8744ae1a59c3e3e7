"""The figures of the handbook are those that were measured last."""

from __future__ import annotations

import re

from tests.handbook.pages import ROOT, page

ACCURACY = (ROOT / "tests/benchmarks/ACCURACY.md").read_text()
SPEED = (ROOT / "tests/benchmarks/SPEED.md").read_text()
CAPACITY = (ROOT / "tests/benchmarks/CAPACITY.md").read_text()


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


def table_rows(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("| ")]


def test_the_capacity_is_what_was_measured_last() -> None:
    of_page = [row for row in table_rows(page("guides/capacity.md")) if re.search(r"\| \d[\d,.]*%? \|", row)]
    measured = table_rows(CAPACITY)

    assert len(of_page) > 20
    assert [row for row in of_page if row not in measured] == []


def test_the_handbook_says_how_far_the_simulation_was_from_the_real_run() -> None:
    text = " ".join(page("guides/capacity.md").split())
    section = CAPACITY.partition("\n## The simulation beside a real run\n")[2].partition("\n## ")[0]
    rows = [[float(cell) for cell in re.findall(r"[\d.]+", row)][-4:] for row in table_rows(section)[2:]]
    ratios = [[row[i + 1] / row[i] for row in rows] for i in (0, 2)]
    median, p99 = (f"{min(values):.1f} to {max(values):.1f} times" for values in ratios)
    load_average = re.findall(r"load average before and after \| ([\d.]+),", CAPACITY)[0]

    assert len(rows) >= 4
    assert f"The real median was {median} the simulated one, and the real p99 {p99}." in text
    assert f"(a load average of {load_average})" in text


def test_the_handbook_has_the_measured_costs_of_replicas() -> None:
    text, measured = (" ".join(source.split()) for source in (page("guides/capacity.md"), CAPACITY))
    primary, replica = re.findall(r"costs the primary (\d+) µs .* takes (\d+) µs", measured)[0]

    assert f"({primary} µs of CPU a lesson) and takes {replica} µs itself" in text
