"""The half-life: an old lesson counts less, because newer lessons are added with larger weights.

Rules: pure; the caller passes the time, in seconds since the epoch. What is learned at time t is multiplied by
2^((t - t0) / h) before it is added, and whoever reads counts at time t divides them by the same factor. This is
forward decay (Cormode et al., "Forward decay: a practical time decay model for streaming systems", 2009, section
3). So no stored count is ever multiplied, and what was added can be subtracted exactly. The counts grow without
end this way, but integers are exact only up to 2^53: beyond ``MAX_GROWTH_HALF_LIVES`` or ``MAX_COUNT`` nothing
more is learned until t0 has been moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from nbstream.bayes.counts import Totals

MAX_COUNT = 2**52
"""The largest total or sum that learning may reach: half of 2^53, up to which Lua's numbers are exact integers."""

MAX_GROWTH_HALF_LIVES = 26.0
"""How many half-lives after t0 learning stops: a lesson of 2,000 tokens then adds 2^47 to a total."""

_SECONDS_PER_DAY = 86_400.0
_STEPS_PER_HALF_LIFE = 1024  # with a half-life of 40 days about one step an hour
_MAX_HALF_LIVES = 256.0  # a clock that is wrong by centuries must not overflow a float


@dataclass(frozen=True, slots=True)
class HalfLife:
    """The time base of a model: what was learned ``days`` ago counts half.

    Where ``days`` is None, the model forgets nothing. ``since`` is t0, in seconds since the epoch: the moment at
    which growth is 1.
    """

    days: float | None = None
    since: float = 0.0

    def growth(self, now: float) -> float:
        """Return the factor by which a weight learned now is multiplied and counts read now are divided.

        It is never below 1: a clock that is behind t0 is read as t0.
        """
        if self.days is None:
            return 1.0
        return float(2.0 ** min(max(self._half_lives_passed(now), 0.0), _MAX_HALF_LIVES))

    def unit(self, now: float) -> float:
        """Return what one occurrence at full weight adds to a count if it is learned now."""
        return WEIGHT_ONE * self.growth(now)

    def half_lives_left(self, now: float, largest: int) -> float | None:
        """Return in about how many half-lives learning stops; 0 if it has stopped, None if it never stops.

        ``largest`` is the largest of all totals, counts and sums. It doubles with each half-life where people
        teach as much as before.
        """
        if self.days is None:
            return None
        room = math.log2(MAX_COUNT / max(1, largest))
        return max(0.0, min(MAX_GROWTH_HALF_LIVES - self._half_lives_passed(now), room))

    def conversion_factor(self, former: HalfLife, at: float) -> float:
        """Return the factor that converts counts of the time base ``former`` to this time base.

        The converted counts say the same at time ``at`` as before. The factor is 0 where it is too small for a
        float; ``OverflowError`` is raised where it is too large for one.
        """
        return float(2.0 ** (self._half_lives_passed(at) - former._half_lives_passed(at)))

    def _half_lives_passed(self, now: float) -> float:
        """Return the half-lives that have passed since t0; 0 without a half-life."""
        return 0.0 if self.days is None else (now - self.since) / (self.days * _SECONDS_PER_DAY)


def largest_count(totals: Totals, score_bins: NDArray[np.int64]) -> int:
    """Return the largest of all totals, counts and sums: how long a model with a half-life can still learn.

    No token counts more than the total of its class. ``score_bins`` are the counts of the bins of the calibration,
    shape (bins, classes), which may be larger than the totals: a bin gets a full weight.
    """
    return max(*totals.token_weights, int(score_bins.max()))


NO_HALF_LIFE = HalfLife()
"""The time base of a model that forgets nothing."""


def grow_weight(weight: int, growth: float) -> int:
    """Return the weight that is added under this growth, rounded to a whole number."""
    return round(weight * growth)


def quantize_unit(unit: float) -> float:
    """Return the unit, exact to a part in 1,500, so that what is cached for it stays valid for a while.

    Without a half-life the unit is returned as it is.
    """
    return WEIGHT_ONE * float(
        2.0 ** (round(_STEPS_PER_HALF_LIFE * math.log2(unit / WEIGHT_ONE)) / _STEPS_PER_HALF_LIFE)
    )
