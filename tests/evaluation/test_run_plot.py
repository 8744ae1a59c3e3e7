"""The picture shows what was measured, whatever that is."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from nbstream.evaluation.report import RowArrays
from nbstream.evaluation.run import EvaluationRow
from nbstream.evaluation.run_plot import run_figure, write_run_plot
from nbstream.policy.verdict import ModelState, Thresholds, decide_verdict

THRESHOLDS = Thresholds(0.5, 0.95, 0.999)


def rows(count: int, apart: float = 3.0) -> list[EvaluationRow]:
    """Rows whose probability is what the score says, around two centres."""
    draw_ = random.Random(5)
    found = []
    for _ in range(count):
        label = draw_.choice(("spam", "ham"))
        probability = min(0.9999, max(0.0001, 0.5 + draw_.gauss(apart if label == "spam" else -apart, 2.0) / 10))
        score = 100 * (probability - 0.5)
        found.append(
            EvaluationRow(label, score, probability, decide_verdict(probability, THRESHOLDS, ModelState({}))[0])
        )
    return found


def test_the_three_panels_have_their_axes_and_legends() -> None:
    figure = run_figure(RowArrays.from_rows(rows(500)), 1000, THRESHOLDS)

    roc, learning, histogram = figure.axes
    assert (roc.get_xscale(), roc.get_yscale(), learning.get_yscale(), histogram.get_yscale()) == ("log",) * 4
    assert [each.get_xlabel() for each in figure.axes] == [
        "ham called spam (%)",
        "messages seen",
        "score: log-odds of spam (nats)",
    ]
    assert all(each.get_ylabel() and each.get_legend() for each in figure.axes)
    assert learning.lines[0].get_xdata()[-1] == 1500  # type: ignore[index]  # an array
    texts = [text.get_text() for text in histogram.get_legend().get_texts()]  # type: ignore[union-attr]  # is there
    assert texts == ["ham", "spam", "unsure from P = 0.5 on", "spam from P = 0.95 on", "reject from P = 0.999 on"]


def test_thresholds_are_drawn_at_the_scores_that_reach_them() -> None:
    _, _, histogram = run_figure(RowArrays.from_rows(rows(500)), 0, Thresholds(0.5, 0.75)).axes

    places = [line.get_xdata()[0] for line in histogram.lines]  # type: ignore[index]  # a list
    assert places == pytest.approx([0.0, 25.0])


def test_the_file_is_a_png_of_a_column(tmp_path: Path) -> None:
    write_run_plot(tmp_path / "a.png", RowArrays.from_rows(rows(300)), 0, THRESHOLDS)

    head = (tmp_path / "a.png").read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", head[16:]) == (700, 1480)


@pytest.mark.parametrize(
    "found",
    [
        [],
        rows(1),
        rows(2),
        rows(7),
        [row for row in rows(50) if row.label == "ham"],
        [row for row in rows(50) if row.label == "spam"],
        rows(80, apart=400.0),
        rows(80, apart=-400.0),
        [EvaluationRow("spam", 1.0, 0.5, row.verdict) for row in rows(9)]
        + [EvaluationRow("ham", 1.0, 0.5, row.verdict) for row in rows(9)],
    ],
    ids=["none", "one", "two", "few", "ham", "spam", "perfect", "all wrong", "all equal"],
)
def test_whatever_there_is_can_be_drawn_without_a_warning(tmp_path: Path, found: list[EvaluationRow]) -> None:
    write_run_plot(tmp_path / "a.png", RowArrays.from_rows(found), 0, THRESHOLDS)

    assert (tmp_path / "a.png").stat().st_size > 5000
