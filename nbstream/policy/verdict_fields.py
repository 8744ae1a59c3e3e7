"""The header fields that carry a verdict.

The first three are SpamAssassin's, which sieve scripts and mail programs read; the fourth is our own and says
everything. All values are ASCII, whatever the message held. Nothing of it enters them but the clues in the fifth,
where it is asked for: see ``clue_field``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from nbstream.policy.clues_field import clues_field_value
from nbstream.policy.verdict import Thresholds, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue

OWN_FIELD = "X-Nbstream"
CLUES_FIELD = "X-Nbstream-Clues"
GUARD_FIELD = "X-Nbstream-Continued"
RECIPIENT_FIELD = "X-Nbstream-Recipient"
"""Whom a redirected message was sent to."""
QUARANTINE_FIELD = "X-Nbstream-Quarantine"
"""The first field of a file in the quarantine: what is to be known of the message."""
VERDICT_FIELDS = (
    *("X-Spam-Flag", "X-Spam-Status", "X-Spam-Level"),
    *(OWN_FIELD, CLUES_FIELD, GUARD_FIELD, RECIPIENT_FIELD, QUARANTINE_FIELD),
)
"""The fields that are ours: every copy that arrives from outside is removed."""

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9
_MAX_STARS = 50


def clamped_log_odds(probability: float) -> float:
    """ln(P / (1 - P)), clamped to ±99.9."""
    if probability <= 0.0:
        return -_SCORE_LIMIT
    if probability >= 1.0:
        return _SCORE_LIMIT
    return max(-_SCORE_LIMIT, min(_SCORE_LIMIT, math.log(probability / (1.0 - probability))))


def comparable_scores(verdict: Verdict, probability: float, thresholds: Thresholds) -> tuple[float, float]:
    """ln(P / (1 - P)) of a message and of the threshold of spam, with one decimal, for programs that compare them.

    The first is no less than the second exactly where the verdict is spam: a model that still learns calls nothing
    spam whatever P is, a threshold may be out of reach, and what is rounded may be equal.
    """
    score, required = round(clamped_log_odds(probability), 1), round(clamped_log_odds(thresholds.spam), 1)
    nearest = max(score, required) if verdict.is_spam else min(score, round(required - 0.1, 1))
    return nearest + 0.0, required + 0.0  # no -0.0


def render_verdict_fields(  # noqa: PLR0913 - what the fields say
    message_id: str,
    verdict: Verdict,
    probability: float,
    reason: str,
    *,
    model: str,
    thresholds: Thresholds,
    policy: str = "",
    clues: Sequence[Clue] = (),
) -> list[tuple[str, str]]:
    """The verdict's header fields, as (name, value), in the order in which they go on top of a message.

    ``policy`` says which recipients' policy decided, in characters fit for it; empty where all have the same. Of
    ``clues``, the strongest first, the first few are told; without any there is no field for them.
    """
    score = clamped_log_odds(probability)
    flag = "Yes" if verdict.is_spam else "No"
    fields = [
        ("X-Spam-Status", f"{flag}, score={score:.1f} required={clamped_log_odds(thresholds.spam):.1f}"),
        ("X-Spam-Level", "*" * min(_MAX_STARS, max(0, int(score)))),
        (OWN_FIELD, own_field_value(message_id, verdict, probability, reason, model, policy)),
    ]
    if clues:
        fields.append((CLUES_FIELD, clues_field_value(clues)))
    return [("X-Spam-Flag", "YES"), *fields] if verdict.is_spam else fields


def parse_own_id(value: str) -> str | None:
    """The id in the value of our own field; None where it is not ours."""
    found = _OWN_ID.search(value)
    return found[1] if found else None


def own_field_value(
    message_id: str, verdict: Verdict, probability: float, reason: str, model: str, policy: str = ""
) -> str:
    """The value of our own field: verdict, probability, why, by whose policy, model, and the message's id."""
    by = f'\r\n\tpolicy="{policy}";' if policy else ""
    return f'{verdict}; probability={probability:.6f}; reason="{reason}";{by}\r\n\tmodel={model}; id={message_id}'
