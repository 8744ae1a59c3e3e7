"""Checks, as the header policy reads them."""

from __future__ import annotations

from collections.abc import Sequence

from nbstream.bayes.clues import Clue
from nbstream.bayes.kinds import KindScores
from nbstream.policy.check import Check, OwnModelUse
from nbstream.policy.sender_lists import ListDecision
from nbstream.policy.verdict import ModelState, Thresholds, Verdict


def checked(
    message_key: str,
    verdict: Verdict,
    probability: float,
    clues: Sequence[Clue] = (),
    *,
    reason: str = "because",
    kind: KindScores | None = None,
    own: str = "",
    thresholds: Thresholds | None = None,
    listed: ListDecision | None = None,
) -> Check:
    """Return the check of a message with what the fields say of it."""
    return Check(
        id=message_key,
        verdict=verdict,
        probability=probability,
        score=0.0,
        reason=reason,
        state=ModelState({}),
        clues=clues,
        kinds=kind,
        own=OwnModelUse(own),
        thresholds=thresholds or Thresholds(),
        listed=listed,
    )
