"""The verdict in numbers and words for programs: scores that they compare, and the value of our own field.

Rules: all values are ASCII, and nothing of the message enters them.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbstream.policy.verdict import Thresholds, Verdict

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9


def clamped_log_odds(probability: float) -> float:
    """Return ln(P / (1 - P)), clamped to ±99.9."""
    if probability <= 0.0:
        return -_SCORE_LIMIT
    if probability >= 1.0:
        return _SCORE_LIMIT
    return max(-_SCORE_LIMIT, min(_SCORE_LIMIT, math.log(probability / (1.0 - probability))))


def comparable_scores(verdict: Verdict, probability: float, thresholds: Thresholds) -> tuple[float, float]:
    """Return ln(P / (1 - P)) of a message and of the threshold for spam, for programs that compare the two.

    Both have one decimal. The first is no less than the second exactly where the verdict is spam. Without a
    correction that would not always hold: a model that is still learning calls nothing spam whatever P is, a
    threshold may be out of reach, and rounding may make the two equal.
    """
    score, required = round(clamped_log_odds(probability), 1), round(clamped_log_odds(thresholds.spam), 1)
    nearest = max(score, required) if verdict.is_spam else min(score, round(required - 0.1, 1))
    return nearest + 0.0, required + 0.0  # no -0.0


def parse_own_id(value: str) -> str | None:
    """Return the id in the value of our own field, or None where the value was not written by us."""
    match = _OWN_ID.search(value)
    return match[1] if match else None


def own_field_value(
    message_id: str, verdict: Verdict, probability: float, reason: str, model: str, policy: str = ""
) -> str:
    """Return the value of our own field.

    Verdict, probability, reason, policy, model, and the id of the message.
    """
    policy_part = f'\r\n\tpolicy="{policy}";' if policy else ""
    return (
        f'{verdict}; probability={probability:.6f}; reason="{reason}";{policy_part}'
        f"\r\n\tmodel={model}; id={message_id}"
    )
