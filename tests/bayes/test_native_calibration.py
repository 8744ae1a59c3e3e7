"""The native library gives the same probability as Python, to the last bit."""

from __future__ import annotations

import math
import struct

from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import Calibration
from nbstream.bayes.counts import Totals
from nbstream.engine.score import MeanProbability
from tests.bayes.test_calibration import COUNTS, MESSAGES, Labels
from tests.harness.native import native_library


@given(COUNTS, MESSAGES, st.floats(-1e3, 1e3) | st.floats(allow_nan=False, allow_infinity=False))
def test_the_probability_is_the_same(counts: Labels, messages: tuple[int, int], log_odds: float) -> None:
    totals = Totals(messages)
    expected = Calibration().probability(log_odds, counts, totals)
    assert Calibration(library=native_library()).probability(log_odds, counts, totals) == expected


def test_the_library_averages_over_the_pairs_itself() -> None:
    pairs = [(0.75, -3.0, 2.0), (0.25, 3.0, 4.0)]
    packed = struct.pack("<6d", *pairs[0], *pairs[1])
    expected = 0.5 + 0.5 * math.fsum(share * math.tanh((1.0 - bias) / two_t) for share, bias, two_t in pairs)
    assert MeanProbability(native_library())(1.0, packed) == expected


def test_what_is_no_number_is_left_to_python() -> None:
    assert math.isnan(MeanProbability(native_library())(math.nan, bytes(24)))
