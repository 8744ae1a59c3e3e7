"""``nbstream.listeners.http.page.message_view``."""

from __future__ import annotations

import math
import re

import pytest

from nbstream.bayes.calibration import sigmoid
from nbstream.listeners.http.page.message_view import (
    DRAWN_CLUES,
    draw_explanation,
    make_axes,
)
from nbstream.policy.explanation import CountedClue, Explanation
from nbstream.policy.verdict import ModelState, Thresholds


def explanation(
    *ratios: float,
    prior: float = 0.5,
    temperature: float = 1.0,
    thresholds: Thresholds = Thresholds(),  # noqa: B008 - frozen
) -> Explanation:
    clues = [CountedClue(b"token:%d" % number, ratio, 0, 1) for number, ratio in enumerate(ratios)]
    score = math.fsum([prior, *ratios])
    return Explanation(
        1.0, "ham", "because", sigmoid(score / temperature), score, prior, thresholds, ModelState({}), clues
    )


def test_the_axes_are_as_long_as_all_bars_and_thresholds_need_and_each_has_its_own_thresholds() -> None:
    one = explanation(5, -3, thresholds=Thresholds(0.5, 0.95, 0.999))
    other = explanation(-20, thresholds=Thresholds(0.7, math.inf))

    axes = make_axes([one, other])

    for axis in axes:
        assert axis.low == -19.5
        assert axis.high == pytest.approx(math.log(999))
        assert (0, "0.500") in [(tick.at, tick.label) for tick in axis.ticks]
    labels = [[mark.label for mark in axis.thresholds] for axis in axes]
    assert labels == [["unsure 0.5", "spam 0.95", "reject 0.999"], ["unsure 0.7"]]  # infinity is never reached
    expected = [0, math.log(19), math.log(999)]
    assert [mark.at for mark in axes[0].thresholds] == pytest.approx(expected, abs=1e-9)


def test_the_strongest_clues_have_a_bar_each_and_all_others_one() -> None:
    many = explanation(*(10 / (number + 1) for number in range(100)))
    svg = draw_explanation(many, make_axes([many])[0], "why")

    labels = re.findall(r'<text class="label ([a-z]+)"[^>]*>(.*?)</text>', svg)
    assert [kind for kind, _ in labels] == ["prior", *["clue"] * DRAWN_CLUES, "rest", "rest", "score"]
    assert labels[1:3] == [("clue", "token:0"), ("clue", "token:1")]
    assert labels[-3][1] == f"{100 - DRAWN_CLUES} weaker clues"
    values = [float(value) for value in re.findall(r'<text class="value [a-z]+"[^>]*>(.*?)</text>', svg)]
    assert math.fsum(values[:-1]) == pytest.approx(values[-1], abs=0.01 * len(values))


def test_a_message_without_clues_is_its_prior() -> None:
    none = explanation()
    svg = draw_explanation(none, make_axes([none])[0], "why")
    assert re.findall(r'<text class="label ([a-z]+)"', svg) == ["prior", "rest", "score"]


def test_the_calibration_is_a_step_from_the_score_to_the_log_odds_of_the_probability() -> None:
    unsure = explanation(6, prior=2, temperature=4)
    svg = draw_explanation(unsure, make_axes([unsure])[0], "why")

    labels = re.findall(r'<text class="label [a-z]+"[^>]*>(.*?)</text>', svg)
    values = re.findall(r'<text class="value [a-z]+"[^>]*>(.*?)</text>', svg)
    assert labels[-2].startswith("calibration")
    assert labels[-1] == "P(spam) 0.881"  # the sigmoid of 8 / 4
    assert values == ["+2.00", "+6.00", "-6.00", "+2.00"]
