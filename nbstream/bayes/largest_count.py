"""The largest count of a model, which says how long a model with a half-life can still learn.

Rules: pure. The totals and ``LARGE_SUMS`` are enough: no token counts more than the total of its class, and a
lesson adds no more to any other sum than to the total.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbstream.bayes.calibration import SCORE_BINS
from nbstream.bayes.event_models import GaussianModel

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals

LARGE_SUMS = (*SCORE_BINS, *GaussianModel.sum_names)
"""The sums that may be larger than the totals: a bin gets a full weight, and a moment the square of a number."""


def largest_count(totals: Totals, large_sums: NDArray[np.int64]) -> int:
    """Return the largest of all totals, counts and sums.

    ``large_sums`` are the counts of ``LARGE_SUMS``, shape (sums, classes).
    """
    return max(*totals.tokens, int(large_sums.max()))
