"""The half-life: what was learned long ago counts less, by growing weights instead of shrinking counts.

Rules: pure; a time is handed in, in seconds since the epoch. What is learned at time t is multiplied by
2^((t - t0) / h) before it is added, and whoever reads counts at time t divides by the same: forward decay
(Cormode et al., "Forward decay: a practical time decay model for streaming systems", 2009, 3). So a stored count
is never multiplied, and what was added is taken back exactly. Numbers grow without end that way, and integers are
exact up to 2^53 only: beyond ``MAX_GROWTH_HALF_LIVES`` or ``MAX_COUNT`` nothing more is learned until t0 has been
moved.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from nbstream.bayes.counts import WEIGHT_ONE

MAX_COUNT = 2**52
"""The largest total and sum that learning may come to: half of what doubles, and Lua's numbers, hold exactly."""

MAX_GROWTH_HALF_LIVES = 26.0
"""So many half-lives after t0 nothing more is learned: a lesson of 2,000 tokens adds 2^47 to a total then."""

_SECONDS_PER_DAY = 86_400.0
_STEPS_PER_HALF_LIFE = 1024  # in a half-life: with 40 days about one in an hour
_MAX_HALF_LIVES = 256.0  # half-lives: a clock that is wrong by centuries overflows nothing


@dataclass(frozen=True, slots=True)
class HalfLife:
    """The time base of a model: what was learned ``days`` ago counts half; None is a model that forgets nothing.

    ``since`` is t0, in seconds since the epoch, where growth is 1.
    """

    days: float | None = None
    since: float = 0.0

    def growth(self, now: float) -> float:
        """By what a weight is multiplied that is learned now, and counts are divided that are read now.

        Never below 1: a clock that is behind t0 is taken for t0.
        """
        if self.days is None:
            return 1.0
        return float(2.0 ** min(max(self._half_lives_passed(now), 0.0), _MAX_HALF_LIVES))

    def unit(self, now: float) -> float:
        """The count of one occurrence at full weight that is learned now."""
        return WEIGHT_ONE * self.growth(now)

    def half_lives_left(self, now: float, largest: int) -> float | None:
        """In about how many half-lives nothing more can be learned, 0 if now; None is never.

        ``largest`` is the largest of all totals, counts and sums: where people teach as much as before, it doubles
        with each half-life.
        """
        if self.days is None:
            return None
        room = math.log2(MAX_COUNT / max(1, largest))
        return max(0.0, min(MAX_GROWTH_HALF_LIVES - self._half_lives_passed(now), room))

    def conversion_factor(self, former: HalfLife, at: float) -> float:
        """By what counts of the time base ``former`` are multiplied, to say in this one the same at that time.

        0 where no number is so small; raises ``OverflowError`` where none is so large.
        """
        return float(2.0 ** (self._half_lives_passed(at) - former._half_lives_passed(at)))

    def _half_lives_passed(self, now: float) -> float:
        """Half-lives since t0; 0 without a half-life."""
        return 0.0 if self.days is None else (now - self.since) / (self.days * _SECONDS_PER_DAY)


NO_HALF_LIFE = HalfLife()
"""The time base of a model that forgets nothing."""


def grow_weight(weight: int, growth: float) -> int:
    """A weight as it is added under this growth, to the nearest whole number."""
    return round(weight * growth)


def quantize_unit(unit: float) -> float:
    """The unit to a part in 1,500, for what is kept until it changes; exactly itself without a half-life."""
    return WEIGHT_ONE * float(
        2.0 ** (round(_STEPS_PER_HALF_LIFE * math.log2(unit / WEIGHT_ONE)) / _STEPS_PER_HALF_LIFE)
    )
