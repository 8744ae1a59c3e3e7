import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.multinomial import log_priors


def test_maximum_likelihood_is_the_share_of_the_messages() -> None:
    assert np.exp(log_priors((9, 5, 0), alpha=0.0)).tolist() == pytest.approx([9 / 14, 5 / 14, 0])


def test_messages_that_are_added_count_like_those_that_were_learned() -> None:
    assert np.exp(log_priors((4, 0), alpha=0.5)).tolist() == pytest.approx([4.5 / 5, 0.5 / 5])


@pytest.mark.parametrize("alpha", [0.0, 1.0])
def test_without_messages_all_classes_are_equal(alpha: float) -> None:
    assert np.exp(log_priors((0, 0, 0, 0), alpha)).tolist() == pytest.approx([0.25] * 4)


@given(st.lists(st.integers(-2, 10**9), min_size=2, max_size=6), st.floats(0, 100))
def test_priors_sum_to_one(messages: list[int], alpha: float) -> None:
    assert np.exp(log_priors(messages, alpha)).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("alpha", [-0.1, math.inf, math.nan])
def test_an_alpha_that_is_no_number_of_messages_is_refused(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        log_priors((1, 2), alpha)
