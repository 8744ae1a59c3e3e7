"""The plot of ``tune`` shows the effect of thresholds on any sample."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from nbstream.evaluation.plots import tuning_figure, write_tuning_plot
from nbstream.evaluation.threshold_choices import TuningResult, compare_thresholds
from nbstream.policy.thresholds import FalsePositiveBudget, ThresholdPolicy
from tests.evaluation.scored import prequential_scores, random_scores
from tests.evaluation.test_threshold_choices import FEW


def tuning_result(spam: float = 0.95) -> TuningResult:
    strict = "with strict.yaml", ThresholdPolicy(0.5, FalsePositiveBudget(0.001))
    return compare_thresholds(random_scores(6000, 4000), ThresholdPolicy(0.5, spam), [strict])


def test_the_best_cost_is_below_all_others() -> None:
    cost, _ = tuning_figure(tuning_result()).axes

    lines = {str(line.get_label()): np.asarray(line.get_ydata()) for line in cost.lines}
    best = lines.pop("best")
    assert len(lines) == 3
    for other in lines.values():
        assert (best <= other * 1.05 + 1e-9).all()  # only some of the many thresholds are tried


@pytest.mark.parametrize(("name", "head"), [("a.PNG", b"\x89PNG"), ("a.pdf", b"%PDF"), ("a.svg", b"<?xml")])
def test_the_suffix_determines_the_format(tmp_path: Path, name: str, head: bytes) -> None:
    write_tuning_plot(tmp_path / name, tuning_result())

    assert (tmp_path / name).read_bytes().startswith(head)


@pytest.mark.parametrize("mail", FEW, ids=["none", "ham", "spam", "both", "sure", "all wrong", "errors"])
@pytest.mark.parametrize("spam", [FalsePositiveBudget(0.001), 1 - 1e-15], ids=["budget", "high"])
def test_any_sample_can_be_drawn_without_a_warning(
    tmp_path: Path, mail: Sequence[tuple[str, float]], spam: float | FalsePositiveBudget
) -> None:
    other = "with $^$.yaml", ThresholdPolicy(0.5, math.nextafter(1, 0))
    write_tuning_plot(
        tmp_path / "a.png", compare_thresholds(prequential_scores(mail), ThresholdPolicy(0.5, spam), [other])
    )

    assert (tmp_path / "a.png").stat().st_size > 5000
