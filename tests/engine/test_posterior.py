"""P(spam) is the same to the last bit, whichever engine computes the posterior of the calibration."""

from __future__ import annotations

import random

import numpy as np
import pytest

from nbstream.bayes.calibration import SCORE_BINS, Calibration
from nbstream.bayes.counts import Totals
from tests.harness.native import native_library

_TOTALS = Totals((900, 800), (5, 5), 3)


@pytest.mark.parametrize("seed", range(8))
def test_both_engines_give_the_same_probability(seed: int) -> None:
    chosen = random.Random(seed)
    python, native = Calibration(), Calibration(library=native_library())
    for most in (0, 1000, 60_000, 10**9, 1 << 51, (1 << 63) - 1):
        counts = np.zeros((len(SCORE_BINS), 2), np.int64)
        for _ in range(chosen.randrange(60)):
            amount = chosen.randint(-most // 9, most)
            counts[chosen.randrange(len(SCORE_BINS)), chosen.randrange(2)] = amount
        for log_odds in (-40.0, -3.25, 0.0, chosen.uniform(-20, 20), 40.0):
            arguments = log_odds, counts, _TOTALS
            assert native.probability(*arguments) == python.probability(*arguments)
