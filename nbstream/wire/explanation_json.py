"""What is told of messages as JSON: the same on the command line and over HTTP."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TYPE_CHECKING

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.tokens.origins import token_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue
    from nbstream.filter.message_record import MessageRecord
    from nbstream.policy.explanation import Explanation
    from nbstream.policy.verdict import ModelState, Thresholds
    from nbstream.wire import answers


def iso_time(seconds: float) -> str:
    """A moment with its offset, to the millisecond."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def explanation_to_json(told: Explanation) -> answers.Explanation:
    """All there is to say, with all clues; counts are in messages, by their weight."""
    return {
        "time": iso_time(told.at),
        "verdict": told.verdict,
        "reason": told.reason,
        "probability": told.probability,
        "score": told.score,
        "prior": told.prior,
        "thresholds": thresholds_to_json(told.thresholds),
        "learned": learned(told.state),
        "needed": dict(told.state.needed),
        "clues": [
            {
                "token": clue.token.decode(),
                "from": token_origin(clue.token.decode()),
                "ham": _weight_in_messages(clue.ham),
                "spam": _weight_in_messages(clue.spam),
                "log_ratio": clue.log_ratio,
                "sum": sum_,
            }
            for clue, sum_ in zip(told.clues, told.running_scores(), strict=True)
        ],
    }


def message_record_to_json(found: MessageRecord) -> answers.Known:
    """A message that is known by its id: as it was checked, as it was learned, what was thought and is thought."""
    remembered, entry = found.checked, found.entry
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
        "then": explanation_to_json(found.explanation_at_check) if found.explanation_at_check else None,
        "now": explanation_to_json(found.explanation_now),
    }


def thresholds_to_json(found: Thresholds) -> answers.Thresholds:
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


def clues_to_json(found: Sequence[Clue]) -> list[answers.Clue]:
    """Clues, the strongest first, with where they come from."""
    told = ((clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in found)
    return [{"token": token, "from": token_origin(token), "log_ratio": log_ratio} for token, log_ratio in told]


def _weight_in_messages(count: int | None) -> float | None:
    return None if count is None else count / WEIGHT_ONE
