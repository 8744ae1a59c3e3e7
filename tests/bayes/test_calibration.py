import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.calibration import Calibration, Params

ANY = st.floats(allow_nan=False)


def test_no_evidence_is_even_odds() -> None:
    assert Calibration().probability(0.0) == 0.5


def test_the_temperature_divides_the_log_odds() -> None:
    probability = Calibration(Params(temperature=5.0)).probability(10.0)
    assert math.log(probability / (1 - probability)) == pytest.approx(2.0)


@given(ANY)
def test_a_probability_is_never_certain(log_odds: float) -> None:
    assert 0.0 < Calibration().probability(log_odds) < 1.0


@given(ANY, ANY)
def test_more_evidence_is_never_less_probable(one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert Calibration().probability(low) <= Calibration().probability(high)
