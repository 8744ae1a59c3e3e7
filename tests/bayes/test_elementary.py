import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from nbstream.bayes.multinomial import elementwise


@given(st.lists(st.floats(1e-300, 1e300), max_size=6))
def test_each_number_is_that_of_the_c_library(values: list[float]) -> None:
    assert elementwise(math.log, np.array(values)).tolist() == [math.log(value) for value in values]
