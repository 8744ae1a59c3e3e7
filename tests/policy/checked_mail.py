"""Checks, as the header policy reads them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from nbstream.bayes.clues import Clue
from nbstream.bayes.kinds import KindScores
from nbstream.policy.sender_lists import ListDecision
from nbstream.policy.verdict import Thresholds, Verdict


@dataclass(frozen=True)
class Checked:
    """The result of a check, without what no field says."""

    id: str
    verdict: Verdict
    probability: float
    clues: Sequence[Clue] = ()
    reason: str = "because"
    kind: KindScores | None = None
    own: str = ""
    thresholds: Thresholds = field(default_factory=Thresholds)
    listed: ListDecision | None = None
