"""The table of an explanation, where a terminal is not needed."""

from __future__ import annotations

import math

import pytest

from nbstream.cli.commands.explain import render_table
from nbstream.policy.check import Explanation
from nbstream.policy.verdict import ModelState, Thresholds


@pytest.mark.parametrize(
    ("thresholds", "shown"),
    [
        (Thresholds(0.4, 0.95), "unsure 0.4, spam 0.95, reject never"),
        (Thresholds(0.5, 0.99999999, 1.0), "unsure 0.5, spam 1-1e-08, reject 1"),
        (Thresholds(0.5, math.inf, math.inf), "unsure 0.5, spam never, reject never"),
    ],
)
def test_a_threshold_is_not_rounded_to_one(thresholds: Thresholds, shown: str) -> None:
    explanation = Explanation(
        at=0.0,
        verdict="ham",
        reason="why",
        probability=0.1,
        score=-2.0,
        prior=-2.0,
        thresholds=thresholds,
        state=ModelState({}),
        clues=(),
    )

    assert f"  thresholds  {shown}" in render_table(explanation)
