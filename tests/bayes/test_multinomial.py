import math

import numpy as np
import pytest

from nbstream.bayes.counts import Totals
from nbstream.bayes.multinomial import log_ratios


def test_the_ratio_follows_the_formula() -> None:
    totals = Totals(messages=(3, 2), tokens=(40_000, 10_000), vocabulary=50)
    ratios = log_ratios(np.array([[1000, 3000]]), totals, 0.2)
    spam, ham = (3 + 0.2) / (10 + 0.2 * 50), (1 + 0.2) / (40 + 0.2 * 50)
    assert ratios[0] == pytest.approx(math.log(spam / ham))


def test_a_token_never_seen_says_nothing() -> None:
    totals = Totals(messages=(9, 1), tokens=(9000, 1000), vocabulary=10)
    assert log_ratios(np.array([[0, 0], [0, 0]]), totals, 0.2).tolist() == [0.0, 0.0]


def test_a_negative_count_reads_as_none() -> None:
    totals = Totals(messages=(1, 1), tokens=(1000, 1000), vocabulary=2)
    rows = np.array([[-5000, 1000], [0, 1000], [-1, -1]])
    ratios = log_ratios(rows, totals, 0.2)
    assert ratios[0] == ratios[1]
    assert ratios[2] == 0.0


def test_equal_counts_under_equal_totals_say_nothing() -> None:
    totals = Totals(messages=(1, 1), tokens=(1000, 1000), vocabulary=2)
    assert log_ratios(np.array([[700, 700]]), totals, 0.2)[0] == 0.0


def test_an_empty_model_is_defined() -> None:
    assert log_ratios(np.zeros((3, 2), dtype=np.int64), Totals(), 0.2).tolist() == [0.0] * 3
