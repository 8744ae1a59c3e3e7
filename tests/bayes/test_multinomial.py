import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.counts import WEIGHT_ONE, Totals
from nbstream.bayes.multinomial import token_log_ratios


def test_the_ratio_follows_the_formula() -> None:
    totals = Totals(messages=(3, 2), token_weights=(40_000, 10_000), vocabulary_size=50)
    ratios = token_log_ratios(np.array([[1000, 3000]]), totals, 0.2)
    spam, ham = (3 + 0.2) / (10 + 0.2 * 50), (1 + 0.2) / (40 + 0.2 * 50)
    assert ratios[0] == pytest.approx(math.log(spam / ham))


def test_the_ratio_of_a_token_never_seen_says_nothing() -> None:
    totals = Totals(messages=(9, 1), token_weights=(9000, 1000), vocabulary_size=10)
    assert token_log_ratios(np.array([[0, 0], [0, 0]]), totals, 0.2).tolist() == [0.0, 0.0]


# To the last bit


@given(
    st.lists(st.tuples(st.integers(-5000, 2**53), st.integers(-5000, 2**53)), max_size=9),
    st.tuples(st.integers(-5000, 2**53), st.integers(-5000, 2**53)),
    st.integers(-5, 10**8),
    st.floats(0.01, 10.0),
)
def test_the_ratio_is_one_logarithm_a_token_and_one_a_message(
    rows: list[tuple[int, int]], tokens: tuple[int, int], vocabulary: int, alpha: float
) -> None:
    ham_mass, spam_mass = (max(weight, 0) / WEIGHT_ONE + alpha * max(vocabulary, 1) for weight in tokens)
    expected = [
        math.log((max(spam, 0) / WEIGHT_ONE + alpha) / (max(ham, 0) / WEIGHT_ONE + alpha))
        + math.log(ham_mass / spam_mass)
        if max(ham, spam) > 0
        else 0.0
        for ham, spam in rows
    ]
    counts = np.array(rows, dtype=np.int64).reshape(-1, 2)
    assert token_log_ratios(counts, Totals((3, 2), tokens, vocabulary), alpha).tolist() == expected


def test_the_ratio_has_these_bits_on_every_processor() -> None:
    # The exact logarithms lie well inside the intervals that are rounded to these numbers.
    totals = Totals((9000, 4000), (1_234_567_890, 987_654_321), 345_678)
    rows = np.array([[0, 1000], [350, 0], [123_456, 792], [1, 4], [-7, 47], [0, 0]])
    assert [ratio.hex() for ratio in token_log_ratios(rows, totals, 0.12).tolist()] == [
        "0x1.396d175552d1fp+1",
        "-0x1.2672f2d4fdb70p+0",
        "-0x1.2c6938825f687p+2",
        "0x1.ea9435253e3b4p-3",
        "0x1.1752883e07eb0p-1",
        "0x0.0p+0",
    ]
