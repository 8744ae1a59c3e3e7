"""The plot shows the measured messages, whatever they are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from nbstream.evaluation.plots import run_figure, write_run_plot
from nbstream.evaluation.report import RowArrays
from nbstream.evaluation.run import EvaluationRow
from nbstream.policy.verdict import ModelState, Thresholds, decide_verdict

THRESHOLDS = Thresholds(0.5, 0.95, 0.999)


def rows(count: int, distance: float = 3.0) -> list[EvaluationRow]:
    """Rows with scores around two centres, and probabilities that follow from them."""
    generator = random.Random(5)
    rows_to_draw = []
    for _ in range(count):
        label = generator.choice(("spam", "ham"))
        probability = min(
            0.9999, max(0.0001, 0.5 + generator.gauss(distance if label == "spam" else -distance, 2.0) / 10)
        )
        score = 100 * (probability - 0.5)
        rows_to_draw.append(
            EvaluationRow(label, score, probability, decide_verdict(probability, THRESHOLDS, ModelState({}))[0])
        )
    return rows_to_draw


def test_thresholds_are_drawn_at_the_scores_that_reach_them() -> None:
    _, _, histogram = run_figure(RowArrays.from_rows(rows(500)), 0, Thresholds(0.5, 0.75)).axes

    scores = [line.get_xdata()[0] for line in histogram.lines]  # type: ignore[index]  # a list
    assert scores == pytest.approx([0.0, 25.0])


@pytest.mark.parametrize(
    "rows_to_draw",
    [
        [],
        rows(1),
        rows(2),
        rows(7),
        [row for row in rows(50) if row.label == "ham"],
        [row for row in rows(50) if row.label == "spam"],
        rows(80, distance=400.0),
        rows(80, distance=-400.0),
        [EvaluationRow("spam", 1.0, 0.5, row.verdict) for row in rows(9)]
        + [EvaluationRow("ham", 1.0, 0.5, row.verdict) for row in rows(9)],
    ],
    ids=["none", "one", "two", "few", "ham", "spam", "perfect", "all wrong", "all equal"],
)
def test_any_rows_can_be_drawn_without_a_warning(tmp_path: Path, rows_to_draw: list[EvaluationRow]) -> None:
    write_run_plot(tmp_path / "a.png", RowArrays.from_rows(rows_to_draw), 0, THRESHOLDS)

    assert (tmp_path / "a.png").stat().st_size > 5000
