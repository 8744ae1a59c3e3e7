"""The header fields that carry a verdict.

The first three are SpamAssassin's, which sieve scripts and mail programs read; the fourth is our own and says
everything. All values are ASCII without line ends, whatever the message held: nothing of it enters them.
"""

from __future__ import annotations

import math
import re

from nbstream.policy.verdict import Thresholds, Verdict

OWN_FIELD = "X-Nbstream"
GUARD_FIELD = "X-Nbstream-Continued"
VERDICT_FIELDS = ("X-Spam-Flag", "X-Spam-Status", "X-Spam-Level", OWN_FIELD, GUARD_FIELD)
"""The fields that are ours: every copy that arrives from outside is removed."""

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9
_MAX_STARS = 50


def log_odds(probability: float) -> float:
    """ln(P / (1 - P)), clamped to ±99.9."""
    if probability <= 0.0:
        return -_SCORE_LIMIT
    if probability >= 1.0:
        return _SCORE_LIMIT
    return max(-_SCORE_LIMIT, min(_SCORE_LIMIT, math.log(probability / (1.0 - probability))))


def render(
    message_id: str, verdict: Verdict, probability: float, reason: str, *, model: str, thresholds: Thresholds
) -> list[tuple[str, str]]:
    """The verdict's header fields, as (name, value), in the order in which they go on top of a message."""
    score = log_odds(probability)
    flag = "Yes" if verdict.is_spam else "No"
    fields = [
        ("X-Spam-Status", f"{flag}, score={score:.1f} required={log_odds(thresholds.spam):.1f}"),
        ("X-Spam-Level", "*" * min(_MAX_STARS, max(0, int(score)))),
        (OWN_FIELD, own_value(message_id, verdict, probability, reason, model)),
    ]
    return [("X-Spam-Flag", "YES"), *fields] if verdict.is_spam else fields


def own_id(value: str) -> str | None:
    """The id in the value of our own field; None where it is not ours."""
    found = _OWN_ID.search(value)
    return found[1] if found else None


def own_value(message_id: str, verdict: Verdict, probability: float, reason: str, model: str) -> str:
    """The value of our own field: verdict, probability, why, model, and the message's id."""
    return f'{verdict}; probability={probability:.6f}; reason="{reason}";\r\n\tmodel={model}; id={message_id}'
