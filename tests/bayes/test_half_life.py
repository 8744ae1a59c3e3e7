"""The half-life's arithmetic, and that counts read with a larger unit say what smaller counts would."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import SCORE_BINS, Calibration
from nbstream.bayes.classifier import Classifier
from nbstream.bayes.counts import CLASSES, WEIGHT_ONE, ClassCounts, Totals
from nbstream.bayes.half_life import (
    MAX_COUNT,
    MAX_GROWTH_HALF_LIVES,
    NO_HALF_LIFE,
    HalfLife,
    grow_weight,
    largest_count,
    quantize_unit,
)
from nbstream.bayes.lesson_weight import grown_lesson_weight
from nbstream.bayes.multinomial import SPAM, TokenCounts
from tests.bayes.sample_models import sample_message, token_counts, trained_counts

DAY = 86_400.0
BASE = HalfLife(10.0, 1000.0)

bases = st.builds(HalfLife, st.floats(1, 1000), st.floats(0, 1e8)) | st.just(NO_HALF_LIFE)
near_bases = st.builds(HalfLife, st.floats(10, 1000), st.floats(0, 1e7)) | st.just(NO_HALF_LIFE)
moments = st.floats(0, 1e8)


def test_growth_doubles_with_each_half_life_and_begins_at_1() -> None:
    growths = [BASE.growth(1000 + n * 10 * DAY) for n in (0, 1, 2, 10, 0.5)]

    assert growths == [1, 2, 4, 1024, pytest.approx(math.sqrt(2))]
    assert BASE.unit(1000 + 10 * DAY) == 2 * WEIGHT_ONE


@given(moments)
def test_without_a_half_life_nothing_grows(now: float) -> None:
    assert (NO_HALF_LIFE.growth(now), NO_HALF_LIFE.half_lives_left(now, 5)) == (1, None)


@pytest.mark.parametrize("now", [999.0, 0.0, -1e300])
def test_a_clock_behind_t0_is_taken_for_t0(now: float) -> None:
    assert BASE.growth(now) == 1


def test_a_clock_that_is_centuries_ahead_overflows_nothing() -> None:
    assert 2.0**100 < BASE.growth(1e300) < 2.0**1000


@given(st.integers(0, WEIGHT_ONE), st.floats(1, 2**26))
def test_a_weight_grows_to_the_nearest_whole_number_and_never_to_0(weight: int, growth: float) -> None:
    grown = grow_weight(weight, growth)

    assert abs(grown - weight * growth) <= 0.5
    assert (grown == 0) == (weight == 0)


@given(near_bases, near_bases, near_bases, st.floats(0, 1e7))
def test_factors_multiply_to_the_factor_of_the_whole_way(
    one: HalfLife, two: HalfLife, three: HalfLife, at: float
) -> None:
    way = two.conversion_factor(one, at) * three.conversion_factor(two, at)

    assert way == pytest.approx(three.conversion_factor(one, at), rel=1e-9)


@given(bases, moments)
def test_a_time_base_has_the_factor_1_to_itself(base: HalfLife, at: float) -> None:
    assert base.conversion_factor(base, at) == 1


@given(near_bases, near_bases, moments)
def test_the_factor_takes_one_growth_to_the_other(one: HalfLife, other: HalfLife, later: float) -> None:
    at = max(one.since, other.since) + later % (20 * DAY)

    assert one.growth(at) * other.conversion_factor(one, at) == pytest.approx(other.growth(at), rel=1e-9)


def test_what_is_left_falls_by_one_with_each_half_life_down_to_0() -> None:
    left = [BASE.half_lives_left(1000 + n * 10 * DAY, 0) for n in (0, 1, 25, 26, 400)]

    assert left == [MAX_GROWTH_HALF_LIVES, MAX_GROWTH_HALF_LIVES - 1, 1, 0, 0]


def test_a_large_count_leaves_less() -> None:
    left = [BASE.half_lives_left(1000, total) for total in (MAX_COUNT // 8, MAX_COUNT, 2 * MAX_COUNT)]

    assert left == [3, 0, 0]


@pytest.mark.parametrize("times", [4, 1024])
def test_grown_counts_in_a_grown_unit_score_as_those_that_did_not_grow(times: int) -> None:
    message, classifier = sample_message("spam", 3), Classifier()
    small = token_counts(trained_counts(), message)
    large = TokenCounts(
        small.rows * times,
        replace(small.totals, token_weights=tuple(total * times for total in small.totals.token_weights)),
        small.unit * times,
    )

    score, other = (classifier.score(message, counts) for counts in (small, large))

    assert abs(score.log_odds) > 0.5
    assert other.log_odds == pytest.approx(score.log_odds, abs=1e-9)
    assert classifier.score(message, replace(small, unit=large.unit)).log_odds != score.log_odds


@pytest.mark.parametrize("times", [4, 1024])
def test_grown_first_scores_in_a_grown_unit_give_the_same_probability(times: int) -> None:
    labels = np.random.default_rng(1).integers(0, 90_000, (len(SCORE_BINS), len(CLASSES)))
    labels[24:, 0] //= 20
    labels[:24, 1] //= 20
    calibration = Calibration()
    totals = Totals((500, 500))

    probability = calibration.probability(3.0, labels, totals)

    assert calibration.probability(3.0, labels * times, totals, WEIGHT_ONE * times) == pytest.approx(
        probability, abs=1e-12
    )
    assert calibration.probability(3.0, labels, totals, WEIGHT_ONE * times) != probability


def test_a_lesson_is_multiplied_by_growth_in_all_that_it_adds() -> None:
    assert grown_lesson_weight(12.0, "ham", growth=8.0) == 8 * grown_lesson_weight(12.0, "ham")
    first, later = (Calibration().lesson_sums(12.0, Totals((9, 9)), growth) for growth in (1.0, 8.0))
    assert [(name, 8 * amount) for name, amount in first] == later


@pytest.mark.parametrize("weights", [(1000,), (1, 0, 0)])
def test_the_largest_of_all_counts_is_a_total_or_a_bin_of_the_calibration(weights: tuple[int, ...]) -> None:
    """A message that the model knows for sure teaches its tokens nothing, and counts in a bin all the same."""
    counts, calibration = ClassCounts(), Calibration()
    for weight in weights:
        counts.add((b"body:offer",), SPAM, weight, calibration.lesson_sums(1000.0, counts.totals))

    largest = largest_count(counts.totals, counts.sums(SCORE_BINS))

    assert largest == max(*counts.totals.token_weights, int(counts.snapshot()[1].max()))


@given(st.floats(0, 1e9))
def test_a_unit_in_steps_is_near_and_stays_the_same_for_a_while(now: float) -> None:
    unit = HalfLife(40.0, 0.0).unit(now)

    assert quantize_unit(unit) == pytest.approx(unit, rel=1 / 1500)
    assert len({quantize_unit(HalfLife(40.0, 0.0).unit(now + 60 * minute)) for minute in range(50)}) <= 2
    assert quantize_unit(WEIGHT_ONE) == WEIGHT_ONE
