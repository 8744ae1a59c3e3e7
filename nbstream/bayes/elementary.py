"""The elementary functions of the C library, applied to each number of an array.

Rules: pure. Every logarithm, exponential and hyperbolic tangent on which a score depends comes from here or from
``math``, which calls the C library. numpy has functions of its own, and which of them it uses depends on the
processor: they differ in the last bit. What numpy computes here are single additions, multiplications and
divisions, which IEEE 754 defines to the last bit; where numbers are added up, the order is stated, or the sum is
``math.fsum``, which is exact before it is rounded and has no order. So two implementations that call the same C
library get the same bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray


def elementwise(function: Callable[[float], float], values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return ``function`` of each of the ``values``, in an array of the same shape."""
    results = map(function, values.ravel().tolist())
    return np.fromiter(results, np.float64, values.size).reshape(values.shape)
