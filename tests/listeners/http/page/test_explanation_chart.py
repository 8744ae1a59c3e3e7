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
    make_axis,
    score_reaching,
)
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds


def explanation(*ratios: float, prior: float = 0.5) -> Explanation:
    clues = [CountedClue(b"token:%d" % number, ratio, 0, 1) for number, ratio in enumerate(ratios)]
    score = math.fsum([prior, *ratios])
    return Explanation(1.0, "ham", "because", sigmoid(score), score, prior, Thresholds(), ModelState({}), clues)


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


def test_the_axis_has_room_for_all_bars_and_thresholds() -> None:
    one, other = explanation(5, -3), explanation(-20)

    axis = make_axis([one, other], Thresholds(0.5, 0.95, 0.999), temperature_of_two)

    assert axis.low == -19.5
    assert axis.high == pytest.approx(2 * math.log(999))
    assert [mark.label for mark in axis.thresholds] == ["unsure 0.5", "spam 0.95", "reject 0.999"]
    expected = [0, 2 * math.log(19), 2 * math.log(999)]
    assert [mark.at for mark in axis.thresholds] == pytest.approx(expected, abs=1e-9)
    assert (0, "0.5") in [(tick.at, tick.label) for tick in axis.ticks]


def test_a_threshold_that_is_never_reached_has_no_line() -> None:
    axis = make_axis([explanation(1)], Thresholds(0.5, math.inf), temperature_of_two)
    assert [mark.label for mark in axis.thresholds] == ["unsure 0.5"]


def test_the_strongest_clues_have_a_bar_each_and_all_others_one() -> None:
    many = explanation(*(10 / (number + 1) for number in range(100)))
    svg = draw_explanation(many, make_axis([many], many.thresholds, temperature_of_two), "why")

    labels = re.findall(r'<text class="label ([a-z]+)"[^>]*>(.*?)</text>', svg)
    assert [kind for kind, _ in labels] == ["prior", *["clue"] * DRAWN_CLUES, "rest", "score"]
    assert labels[1:3] == [("clue", "token:0"), ("clue", "token:1")]
    assert labels[-2][1] == f"{100 - DRAWN_CLUES} weaker clues"
    values = [float(value) for value in re.findall(r'<text class="value [a-z]+"[^>]*>(.*?)</text>', svg)]
    assert math.fsum(values[:-1]) == pytest.approx(values[-1], abs=0.01 * len(values))


def test_a_message_without_clues_is_its_prior() -> None:
    none = explanation()
    svg = draw_explanation(none, make_axis([none], none.thresholds, temperature_of_two), "why")
    assert re.findall(r'<text class="label ([a-z]+)"', svg) == ["prior", "score"]
