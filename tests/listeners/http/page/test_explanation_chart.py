"""``nbstream.listeners.http.page.explanation_chart``."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import sigmoid
from nbstream.listeners.http.page.explanation_chart import (
    DRAWN_CLUES,
    draw_explanation,
    make_axes,
    score_reaching,
)
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds


def explanation(
    *ratios: float,
    prior: float = 0.5,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 - frozen
) -> Explanation:
    clues = [CountedClue(b"token:%d" % number, ratio, 0, 1) for number, ratio in enumerate(ratios)]
    score = math.fsum([prior, *ratios])
    return Explanation(1.0, "ham", "because", sigmoid(score), score, prior, thresholds, ModelState({}), clues)


def temperature_of_two(score: float) -> float:
    return sigmoid(score / 2)


@given(st.floats(1e-12, 1 - 1e-12))
def test_the_score_of_a_probability_is_the_smallest_that_has_it(probability: float) -> None:
    score = score_reaching(probability, temperature_of_two)
    assert score is not None
    assert temperature_of_two(score) >= probability > temperature_of_two(score - 1e-9) - 1e-12


@pytest.mark.parametrize("probability", [1.1, math.inf, math.nan])
def test_a_probability_that_no_score_has_has_no_score(probability: float) -> None:
    assert score_reaching(probability, temperature_of_two) is None


def test_the_axes_are_as_long_as_all_bars_and_thresholds_need_and_each_has_its_own_thresholds() -> None:
    one = explanation(5, -3, thresholds=Thresholds(0.5, 0.95, 0.999))
    other = explanation(-20, thresholds=Thresholds(0.7, math.inf))

    axes = make_axes([one, other], temperature_of_two)

    for axis in axes:
        assert axis.low == -19.5
        assert axis.high == pytest.approx(2 * math.log(999))
        assert (0, "0.500") in [(tick.at, tick.label) for tick in axis.ticks]
    labels = [[mark.label for mark in axis.thresholds] for axis in axes]
    assert labels == [["unsure 0.5", "spam 0.95", "reject 0.999"], ["unsure 0.7"]]  # infinity is never reached
    expected = [0, 2 * math.log(19), 2 * math.log(999)]
    assert [mark.at for mark in axes[0].thresholds] == pytest.approx(expected, abs=1e-9)


def test_the_strongest_clues_have_a_bar_each_and_all_others_one() -> None:
    many = explanation(*(10 / (number + 1) for number in range(100)))
    svg = draw_explanation(many, make_axes([many], temperature_of_two)[0], "why")

    labels = re.findall(r'<text class="label ([a-z]+)"[^>]*>(.*?)</text>', svg)
    assert [kind for kind, _ in labels] == ["prior", *["clue"] * DRAWN_CLUES, "rest", "score"]
    assert labels[1:3] == [("clue", "token:0"), ("clue", "token:1")]
    assert labels[-2][1] == f"{100 - DRAWN_CLUES} weaker clues"
    values = [float(value) for value in re.findall(r'<text class="value [a-z]+"[^>]*>(.*?)</text>', svg)]
    assert math.fsum(values[:-1]) == pytest.approx(values[-1], abs=0.01 * len(values))


def test_a_message_without_clues_is_its_prior() -> None:
    none = explanation()
    svg = draw_explanation(none, make_axes([none], temperature_of_two)[0], "why")
    assert re.findall(r'<text class="label ([a-z]+)"', svg) == ["prior", "score"]
