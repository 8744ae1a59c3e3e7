"""Log-odds as an axis for probabilities: 0.9, 0.99 and 0.999 are about equally far from each other."""

from __future__ import annotations

import math
from collections.abc import Iterator

from nbstream.listeners.http.page.charts.axes import Scale
from nbstream.policy.verdict import format_threshold

MAX_LOG_ODDS = 36.0  # those of the largest number below 1
_TICK_DISTANCE = 52.0  # room for a label
_MAX_DIGITS = 15


def log_odds(p: float) -> float:
    """Return ln(p / (1 - p)), at most 36 and at least -36; that is also what 1, infinity and 0 give."""
    if 0 < p < 1:
        return max(-MAX_LOG_ODDS, min(MAX_LOG_ODDS, math.log(p) - math.log1p(-p)))
    return MAX_LOG_ODDS if p >= 1 else -MAX_LOG_ODDS


def probability(odds: float) -> float:
    """Return the probability with these log-odds."""
    return 1 / (1 + math.exp(-odds))


def probability_ticks(scale: Scale) -> Iterator[tuple[float, str]]:
    """Yield log-odds and labels of round probabilities on a scale of log-odds, not too near to each other."""
    tails = [10.0**-digits for digits in range(1, _MAX_DIGITS + 1)]
    taken: list[float] = []
    for p in (0.5, *(p for tail in tails for p in (tail, 1 - tail))):
        odds = log_odds(p)
        x = scale.position(odds)
        if scale.low <= odds <= scale.high and all(abs(x - other) >= _TICK_DISTANCE for other in taken):
            taken.append(x)
            yield odds, format_threshold(p)
