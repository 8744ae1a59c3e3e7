"""What is told of messages as JSON: the same on the command line and over HTTP."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.tokens.origins import source

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue
    from nbstream.filter.message_record import Known
    from nbstream.policy.explanation import Explanation
    from nbstream.policy.verdict import ModelState, Thresholds
    from nbstream.wire import answers


def iso_time(seconds: float) -> str:
    """A moment with its offset, to the millisecond."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def explanation(told: Explanation) -> answers.Explanation:
    """All there is to say, with all clues; counts are in messages, by their weight."""
    return {
        "time": iso_time(told.at),
        "verdict": told.verdict,
        "reason": told.reason,
        "probability": told.probability,
        "score": told.score,
        "prior": told.prior,
        "thresholds": thresholds(told.thresholds),
        "learned": learned(told.state),
        "needed": dict(told.state.needed),
        "clues": [
            {
                "token": clue.token.decode(),
                "from": source(clue.token.decode()),
                "ham": _messages(clue.ham),
                "spam": _messages(clue.spam),
                "log_ratio": clue.log_ratio,
                "sum": sum_,
            }
            for clue, sum_ in zip(told.clues, told.sums(), strict=True)
        ],
    }


def known(found: Known) -> answers.Known:
    """A message that is known by its id: as it was checked, as it was learned, what was thought and is thought."""
    remembered, entry = found.remembered, found.entry
    last_check: answers.Remembered | None = None
    if remembered:
        last_check = {
            "verdict": remembered.verdict,
            "probability": remembered.probability,
            "policy": remembered.policy,
        }
    learned_as: answers.LedgerEntry | None = None
    if entry:
        learned_as = {
            "label": entry.label,
            "time": iso_time(entry.learned_at),
            "source": entry.source,
            "actor": entry.actor,
        }
    return {
        "id": found.id,
        "remembered": last_check,
        "learned": learned_as,
        "then": explanation(found.then) if found.then else None,
        "now": explanation(found.now),
    }


def thresholds(found: Thresholds) -> answers.Thresholds:
    """The thresholds; null for one that is never reached."""
    return {
        "unsure": found.unsure,
        "spam": _reachable(found.spam),
        "reject": _reachable(found.reject),
        "promise": found.promise,
        "promised": found.promised,
    }


def _reachable(threshold: float | None) -> float | None:
    return None if threshold == math.inf else threshold


def learned(state: ModelState) -> answers.Counts:
    """The messages learned of each class."""
    return {"ham": state.learned["ham"], "spam": state.learned["spam"]}


def clues(found: Sequence[Clue]) -> list[answers.Clue]:
    """Clues, the strongest first, with where they come from."""
    told = ((clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in found)
    return [{"token": token, "from": source(token), "log_ratio": log_ratio} for token, log_ratio in told]


def _messages(count: int | None) -> float | None:
    return None if count is None else count / WEIGHT_ONE
