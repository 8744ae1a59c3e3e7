import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.multinomial import elementwise


@given(st.lists(st.floats(1e-300, 1e300), max_size=6))
def test_each_number_is_that_of_the_c_library(values: list[float]) -> None:
    assert elementwise(math.log, np.array(values)).tolist() == [math.log(value) for value in values]


def test_the_shape_stays() -> None:
    squares = elementwise(lambda value: value * value, np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]))
    assert squares.tolist() == [[1.0, 4.0, 9.0], [16.0, 25.0, 36.0]]
