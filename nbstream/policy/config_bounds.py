"""What a configuration is held to, known before anything is counted: how many rules, and how small a budget.

Rules: pure, and without numpy, so that the commands that only read the configuration start quickly.
"""

from __future__ import annotations

import math

PROMISE_DELTA = 0.05
"""The probability with which a promise may be broken."""

MAX_RECIPIENT_RULES = 200
"""Rules for recipients."""

MAX_BUDGETS = 20
"""Of one first score: so many different rates can be followed."""


def ham_needed(rate: float) -> int:
    """The least number of ham after which ``rate`` can be promised: (1 - rate)^n <= delta; see ``budget``."""
    n = math.ceil(math.log(PROMISE_DELTA) / math.log1p(-rate))
    return (
        n if math.exp(n * math.log1p(-rate)) <= PROMISE_DELTA * (1 + 1e-12) else n + 1
    )  # the quotient is rounded
