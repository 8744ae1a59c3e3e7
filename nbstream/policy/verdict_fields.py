"""Render the header fields that carry a verdict.

The first three fields are SpamAssassin's, which sieve scripts and mail programs read. The fourth is our own and
says everything. All values are ASCII, whatever the message contains. Nothing of the message enters them but the
clues in the fifth field, which can be switched off: see ``clues_field``.
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
"""The recipients that a redirected message was sent to."""
QUARANTINE_FIELD = "X-Nbstream-Quarantine"
"""The first field of a file in the quarantine: what the quarantine has to know of the message."""
VERDICT_FIELDS = (
    *("X-Spam-Flag", "X-Spam-Status", "X-Spam-Level"),
    *(OWN_FIELD, CLUES_FIELD, GUARD_FIELD, RECIPIENT_FIELD, QUARANTINE_FIELD),
)
"""Our own fields: every copy that arrives from outside is removed."""

_OWN_ID = re.compile(r";\s*id=([a-z2-7]{24})\Z")
_SCORE_LIMIT = 99.9
_MAX_STARS = 50


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
    """Return the header fields of a verdict, as (name, value), in the order in which they go on top of a message.

    ``policy`` is the name of the treatment that decided, in characters that are fit for a header field; it is
    empty where all recipients have the same treatment. The first few of ``clues``, which come strongest first,
    have a field of their own; without clues there is no such field.
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
