"""The limit of growth: with a half-life weights double, and learning stops before counts become inexact.

Rules: the check is made on the counts as they would be after the lesson. These counts may be some lessons old, or
others may change them at the same moment. That does no harm: hundreds of lessons fit between the limit and the
largest integer that is exact. A warning is logged long before the limit.
"""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from nbstream.bayes.half_life import MAX_COUNT, MAX_GROWTH_HALF_LIVES
from nbstream.errors import CountsFull

if TYPE_CHECKING:
    from nbstream.bayes.half_life import HalfLife
    from nbstream.filter.message_counts import MessageCounts

_log = logging.getLogger(__name__)

_WARN_FROM_HALF_LIVES = 6  # half-lives before the end: a year and a half with 90 days
_REMEDY = "nbstream export the model, set a new model.name, and nbstream import it: that moves its t0 to now"


class HalfLifeMonitor:
    """Refuses lessons beyond the limit, and warns once for each of the last six half-lives before it."""

    def __init__(self) -> None:
        self._last_warning = _WARN_FROM_HALF_LIVES

    def check_counts(self, half_life: HalfLife, now: float, counts: MessageCounts) -> None:
        """Raise ``CountsFull`` where ``counts`` or the weights of ``now`` (seconds since the epoch) are too large.

        ``counts`` are those after the lesson that is planned.
        """
        largest = max(
            *counts.totals.tokens, int(abs(counts.rows).max(initial=0)), int(abs(counts.sums).max(initial=0))
        )
        if largest > MAX_COUNT or math.log2(counts.growth) > MAX_GROWTH_HALF_LIVES:
            raise CountsFull(f"nothing more can be learned with this t0, mail is scored as before: {_REMEDY}")
        left = half_life.half_lives_left(now, largest)
        if left is not None and left < self._last_warning:
            self._last_warning = math.floor(left)
            _log.warning("in about %.1f half-lives nothing more can be learned: %s", left, _REMEDY)
