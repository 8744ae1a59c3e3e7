"""Bounds of a configuration: how many recipient rules and budgets it may have, and how much ham a budget needs.

Rules: pure, and without numpy: commands that only read the configuration start quickly.
"""

from __future__ import annotations

import math

PROMISE_DELTA = 0.05
"""The probability with which a promise may be broken (delta)."""

MAX_RECIPIENT_RULES = 200
"""The largest number of recipient rules."""

MAX_FIRST_SCORES = 50_000
"""How many labelled messages of each class are kept with the P(spam) that they had before their label.

Each takes 150 bytes of Redis and 600 bytes of each worker. Budgets are promised by those of ham.
"""

MIN_FALSE_POSITIVE_RATE = 6e-5
"""The smallest budget: ``MAX_FIRST_SCORES`` ham suffice to promise it, and for no smaller round one."""

MAX_FALSE_POSITIVE_RATE = 0.5
"""The largest budget."""

MAX_BUDGETS = 20
"""The largest number of different budgets: each first score stores what each of them decided."""


def ham_needed(rate: float) -> int:
    """Return the least number n of ham after which ``rate`` can be promised.

    (1 - rate)^n <= delta; see ``budget``.
    """
    n = math.ceil(math.log(PROMISE_DELTA) / math.log1p(-rate))
    is_enough = math.exp(n * math.log1p(-rate)) <= PROMISE_DELTA * (1 + 1e-12)  # the quotient was rounded
    return n if is_enough else n + 1
