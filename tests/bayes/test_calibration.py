import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from nbstream.bayes.calibration import SCORE_BINS, Calibration, CalibrationOptions, blend_sums, sigmoid
from nbstream.bayes.counts import WEIGHT_ONE, Totals, is_sum
from nbstream.bayes.multinomial import HAM, SPAM

Labels = NDArray[np.int64]

NOTHING: Labels = np.zeros((len(SCORE_BINS), 2), dtype=np.int64)
MIDDLE = len(SCORE_BINS) // 2
OLD = Totals(messages=(10**9, 10**9))  # with so many messages a score is not reduced
SCORES = st.floats(-1e6, 1e6)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
MESSAGES = st.tuples(st.integers(-5, 10**6), st.integers(-5, 10**6))
COUNTS = st.lists(
    st.tuples(st.integers(0, len(SCORE_BINS) - 1), st.integers(0, 1), st.integers(-50, 5000)), max_size=12
).map(lambda cells: labels_of(*cells))


def labels_of(*cells: tuple[int, int, int]) -> Labels:
    """Counts of prequential scores, from bin, class and number of messages."""
    counts = NOTHING.copy()
    for bin_number, column, messages in cells:
        counts[bin_number, column] += messages * WEIGHT_ONE
    return counts


def labels(ham: dict[int, int], spam: dict[int, int]) -> Labels:
    """The same counts, given per class as {bin: number of messages}, where bin 0 is the middle one."""
    sides = ((HAM, ham), (SPAM, spam))
    return labels_of(
        *((MIDDLE + bin_number, column, n) for column, side in sides for bin_number, n in side.items())
    )


def p(log_odds: float, counts: Labels = NOTHING, totals: Totals = OLD) -> float:
    return Calibration().probability(log_odds, counts, totals)


def bin_of(log_odds: float, totals: Totals = OLD) -> int:
    """The number of the bin to which a message with this score adds."""
    ((name, amount),) = Calibration().lesson_sums(log_odds, totals)
    assert amount == WEIGHT_ONE
    return SCORE_BINS.index(name) - MIDDLE


# The map


@given(COUNTS, MESSAGES, SCORES, SCORES)
def test_more_evidence_is_never_less_probable(
    counts: Labels, messages: tuple[int, int], one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert p(low, counts, Totals(messages)) <= p(high, counts, Totals(messages))


@given(COUNTS, MESSAGES, FINITE)
def test_a_probability_is_never_certain(counts: Labels, messages: tuple[int, int], log_odds: float) -> None:
    assert 0.0 < p(log_odds, counts, Totals(messages)) < 1.0


def test_no_evidence_is_even_odds() -> None:
    assert p(0.0) == pytest.approx(0.5, abs=1e-15)


@pytest.mark.parametrize("temperature", [2.0, 4.0])
@pytest.mark.parametrize("log_odds", [-30.0, -1.0, 0.0, 5.0, 60.0])
def test_an_unlearned_map_that_is_sure_of_itself_divides_by_its_temperature(
    log_odds: float, temperature: float
) -> None:
    sure = Calibration(
        CalibrationOptions(
            temperature=temperature, temperature_spread=0.001, bias_spread=0.001, young_model_messages=0.0
        )
    )
    assert sure.probability(log_odds, NOTHING, Totals()) == pytest.approx(sigmoid(log_odds / temperature))


@pytest.mark.parametrize("log_odds", [-40.0, -8.0, -3.0, 1.0, 4.0, 12.0])
def test_the_unlearned_map_is_the_average_over_what_it_is_unsure_of(log_odds: float) -> None:
    options = CalibrationOptions(young_model_messages=0.0)
    spreads = [n / 8 for n in range(-32, 33)]
    mean = weights = 0.0
    for t in spreads:
        for b in spreads:
            weight = math.exp(-(t * t + b * b) / 2)
            temperature = options.temperature * math.exp(options.temperature_spread * t)
            mean += weight * sigmoid((log_odds - options.bias_spread * b) / temperature)
            weights += weight

    assert Calibration(options).probability(log_odds, NOTHING, OLD) == pytest.approx(mean / weights, abs=0.001)


# What it learns


def test_it_learns_that_scores_are_too_low() -> None:
    labelled = labels(ham={-15: 5000}, spam={10: 4500, -2: 500})
    assert p(0.0, labelled) > 0.75
    assert p(-3.0, labelled) > 0.4 > p(-3.0)


def test_it_learns_that_scores_are_too_high() -> None:
    labelled = labels(ham={-10: 4500, 2: 500}, spam={15: 5000})
    assert p(0.0, labelled) < 0.25
    assert p(3.0, labelled) < 0.6 < p(3.0)


def test_it_learns_that_scores_say_less_than_they_seem_to() -> None:
    labelled = labels(ham={-16: 90_000, 16: 9000}, spam={16: 90_000, -16: 9000})
    assert 0.5 < p(12.0, labelled) < p(12.0) - 0.05


def test_a_few_slips_of_the_hand_do_not_flatten_the_map() -> None:
    clean = labels(ham={-10: 10_000}, spam={10: 10_000})
    slips = clean + labels(ham={20: 300}, spam={-20: 300})
    assert p(10.0, slips) == pytest.approx(p(10.0, clean), abs=1e-6)
    taken_at_their_word = Calibration(CalibrationOptions(wrong_label_share=1e-9))
    assert taken_at_their_word.probability(10.0, slips, OLD) < p(10.0, slips) - 0.2


def test_a_campaign_of_fifty_counts_like_one_message() -> None:
    fifty = Calibration(CalibrationOptions(evidence_per_message=0.02)).probability(
        5.0, labels({-9: 50}, {9: 50}), OLD
    )
    one = Calibration(CalibrationOptions(evidence_per_message=1.0)).probability(5.0, labels({-9: 1}, {9: 1}), OLD)
    assert fifty == pytest.approx(one)


@given(st.integers(0, 4000), st.integers(0, 1000), st.integers(0, 5000), SCORES)
def test_labels_that_look_like_corrections_alone_change_nothing(
    right: int, neither: int, other: int, log_odds: float
) -> None:
    wrong = max(0, right - 4 * neither + 3) // 4  # with those of score 0 a fifth of the class, or more
    ham = {-5: right, 0: neither, 7: wrong}
    for labelled in (
        labels(ham, {5: other}),
        labels({-5: other}, {-bin_number: n for bin_number, n in ham.items()}),
    ):
        assert p(log_odds, labelled) == p(log_odds)


@given(st.integers(1, len(SCORE_BINS) - 1), st.integers(0, 10**6), SCORES)
def test_labels_of_one_class_alone_change_nothing(bin_number: int, messages: int, log_odds: float) -> None:
    assert p(log_odds, labels_of((bin_number, SPAM, messages))) == p(log_odds)
    assert p(log_odds, labels_of((bin_number, HAM, messages))) == p(log_odds)


def test_the_more_a_class_is_on_the_right_side_the_more_its_labels_change() -> None:
    moved = [abs(p(5.0, labels({-20: n, 3: 1000 - n}, {20: 1000})) - p(5.0)) for n in (800, 830, 860, 900)]
    assert moved[0] == 0
    assert moved[0] < moved[1] < moved[2] < moved[3]


@given(st.lists(COUNTS, max_size=4), SCORES)
def test_a_probability_is_that_of_the_labels_given_whatever_came_before(
    earlier_labels: list[Labels], log_odds: float
) -> None:
    calibration, last = Calibration(), labels(ham={-9: 700}, spam={3: 500})
    for counts in earlier_labels:
        calibration.probability(log_odds, counts, OLD)
        assert calibration.probability(log_odds, last, OLD) == p(log_odds, last)


# Young models


@given(SCORES, st.integers(-3, 1000))
def test_a_young_model_is_less_sure(log_odds: float, messages: int) -> None:
    young, older = (Totals(messages=(n, n)) for n in (messages, messages + 1))
    assert abs(p(log_odds, totals=young) - 0.5) <= abs(p(log_odds, totals=older) - 0.5) + 1e-15


@given(SCORES, st.integers(0, 500), st.integers(0, 500))
def test_a_model_is_as_old_as_its_smaller_class(log_odds: float, ham: int, spam: int) -> None:
    both = Totals(messages=(min(ham, spam),) * 2)
    assert p(log_odds, totals=Totals(messages=(ham, spam))) == p(log_odds, totals=both)


# The lesson


def test_the_bins_are_distinct_sums_with_one_in_the_middle() -> None:
    assert len(set(SCORE_BINS)) == len(SCORE_BINS)
    assert len(SCORE_BINS) % 2 == 1
    assert all(map(is_sum, SCORE_BINS))
    assert [SCORE_BINS[bin_number] for bin_number in (0, MIDDLE - 1, MIDDLE, -1)] == [
        *(b"=score-24", b"=score-1"),
        b"=score+0",
        b"=score+24",
    ]


@given(st.floats(-160, 160))
def test_the_bins_grow_with_the_distance_and_hold_the_score(log_odds: float) -> None:
    width = math.hypot(1.0, log_odds / 6.0)  # the derivative of 6 sinh(x / 6)
    assert abs(6.0 * math.sinh(bin_of(log_odds) / 6.0) - log_odds) <= 0.55 * width


@given(st.floats(-300, 300), MESSAGES)
def test_the_bin_is_that_of_the_score_as_the_map_reads_it(log_odds: float, messages: tuple[int, int]) -> None:
    worth = log_odds / (1 + CalibrationOptions().young_model_messages / max(min(messages), 1))
    assert bin_of(log_odds, Totals(messages)) == bin_of(worth)


# To the last bit

# Each of these lies well inside the interval of exact values that are rounded to it.
TAUGHT = labels(ham={-15: 500, 2: 20}, spam={10: 450, -2: 50})


@pytest.mark.parametrize(
    ("counts", "log_odds", "bits"),
    [
        (NOTHING, -1.5, "0x1.921b9569d14ffp-2"),
        (NOTHING, 3.0, "0x1.6969185362e43p-1"),
        (TAUGHT, 20.0, "0x1.ff7fdee672d1ep-1"),
    ],
)
def test_a_probability_has_these_bits_on_every_processor(counts: Labels, log_odds: float, bits: str) -> None:
    assert p(log_odds, counts).hex() == bits


# Own models


def test_while_an_own_model_has_no_prequential_scores_its_map_is_the_very_one_of_its_parent() -> None:
    parent = labels(ham={-3: 40}, spam={3: 60})
    assert blend_sums(parent, NOTHING) is parent


@pytest.mark.parametrize(("messages", "repeats"), [(0, 1), (1999, 1), (2000, 2), (5000, 5)])
def test_a_prequential_score_of_an_own_model_counts_more_the_more_its_parent_has(
    messages: int, repeats: int
) -> None:
    parent, own = labels(ham={-3: messages}, spam={}), labels(ham={}, spam={4: 2})
    expected = labels(ham={-3: messages}, spam={4: 2 * repeats})
    assert np.array_equal(blend_sums(parent, own), expected)
