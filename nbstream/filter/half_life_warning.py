"""The end of growth: with a half-life weights double, and before counts are inexact learning stops, said early.

Rules: what is checked is what a lesson would make of the counts. They may be some lessons old, or be changed by
others at the same moment; hundreds of those fit between the limit and what integers hold exactly.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from nbstream.bayes.half_life import MAX_COUNT, MAX_GROWTH_HALF_LIVES
from nbstream.errors import CountsFull

if TYPE_CHECKING:
    from nbstream.bayes.half_life import HalfLife
    from nbstream.filter.scorer import MessageCounts

_log = logging.getLogger(__name__)

_WARN_FROM_HALF_LIVES = 6  # half-lives before the end: a year and a half with 90 days
_REMEDY = "nbstream export the model, set a new model.name, and nbstream import it: that moves its t0 to now"


class HalfLifeMonitor:
    """Looks at what is learned, and warns once for each half-life that is left, from the sixth last on."""

    def __init__(self) -> None:
        self._last_warning = _WARN_FROM_HALF_LIVES

    def check_counts(self, half_life: HalfLife, now: float, then: MessageCounts) -> None:
        """Raise ``CountsFull`` where the counts ``then`` would be too large, or weights grow too much."""
        largest = max(*then.totals.tokens, int(abs(then.rows).max(initial=0)))
        if largest > MAX_COUNT or math.log2(then.growth) > MAX_GROWTH_HALF_LIVES:
            raise CountsFull(f"nothing more can be learned with this t0, mail is scored as before: {_REMEDY}")
        left = half_life.half_lives_left(now, largest)
        if left is not None and left < self._last_warning:
            self._last_warning = math.floor(left)
            _log.warning("in about %.1f half-lives nothing more can be learned: %s", left, _REMEDY)
