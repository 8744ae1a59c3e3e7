"""Clues: what voted in a score, and by how much; of many, the strongest.

Rules: pure; which clues are chosen does not depend on the order in which they were looked up, equal ones are
chosen by name; what says nothing is no clue.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

Vote: TypeAlias = tuple[float, bytes]
"""A log-ratio, and the name of what it comes from."""

_LEAST = math.ulp(0.0)  # the smallest ratio that says anything at all


@dataclass(frozen=True, slots=True)
class Clue:
    """What voted, with ln P(it | spam) - ln P(it | ham): positive speaks for spam.

    ``token`` is the token's name; the vote of an event model that has no tokens has the name of its feature.
    """

    token: bytes
    log_ratio: float


def strongest(names: Sequence[bytes], ratios: NDArray[np.float64], limit: int) -> list[Vote]:
    """The at most ``limit`` strongest votes for ham and as many for spam, from ham to spam."""
    values = ratios.tolist()
    ordered = sorted(values)
    ham_until = min([-_LEAST, *ordered[:limit][-1:]])
    spam_from = max([_LEAST, *ordered[-limit:][:1]])
    # Only what can win is paired with its name and sorted by it: half the time of doing so with all.
    pairs = zip(values, names, strict=True)
    votes = sorted(pair for pair in pairs if pair[0] <= ham_until or pair[0] >= spam_from)
    hams = bisect_left(votes, (0.0, b""))
    return votes[: min(limit, hams)] + votes[max(hams, len(votes) - limit) :]


def by_strength(votes: Sequence[Vote]) -> list[Vote]:
    """Those that say something, strongest first, equal ones by name."""
    return sorted(filter(itemgetter(0), votes), key=lambda vote: (-abs(vote[0]), vote[1]))
