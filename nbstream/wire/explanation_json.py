"""Explanations, clues and thresholds as JSON: the same on the command line and over HTTP."""

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
    """Return a Unix time as ISO 8601 in local time, with its offset from UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def explanation_to_json(explanation: Explanation) -> answers.Explanation:
    """Return the whole explanation with all its clues; the counts are numbers of messages, by their weight."""
    return {
        "time": iso_time(explanation.at),
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "probability": explanation.probability,
        "score": explanation.score,
        "prior": explanation.prior,
        "thresholds": thresholds_to_json(explanation.thresholds),
        "learned": learned_counts(explanation.state),
        "needed": dict(explanation.state.needed),
        "clues": [
            {
                "token": clue.token.decode(),
                "from": token_origin(clue.token.decode()),
                "ham": _weight_in_messages(clue.ham),
                "spam": _weight_in_messages(clue.spam),
                "log_ratio": clue.log_ratio,
                "sum": running_score,
            }
            for clue, running_score in zip(explanation.clues, explanation.running_scores(), strict=True)
        ],
    }


def message_record_to_json(record: MessageRecord) -> answers.Known:
    """Return what is known of a message by its id: its last check, its label, and why then and why now."""
    remembered, entry = record.checked, record.entry
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
        "id": record.id,
        "remembered": last_check,
        "learned": learned_as,
        "then": explanation_to_json(record.explanation_at_check) if record.explanation_at_check else None,
        "now": explanation_to_json(record.explanation_now),
    }


def thresholds_to_json(thresholds: Thresholds) -> answers.Thresholds:
    """Return the thresholds; a threshold that is never reached is null."""
    return {
        "unsure": thresholds.unsure,
        "spam": _reachable(thresholds.spam),
        "reject": _reachable(thresholds.reject),
        "promise": thresholds.promise,
        "promised": thresholds.promised,
    }


def _reachable(threshold: float | None) -> float | None:
    return None if threshold == math.inf else threshold


def learned_counts(state: ModelState) -> answers.Counts:
    """Return how many messages of each class are learned."""
    return {"ham": state.learned["ham"], "spam": state.learned["spam"]}


def clues_to_json(clues: Sequence[Clue]) -> list[answers.Clue]:
    """Return the clues in their order, the strongest first, each with the part of the message it comes from."""
    ratios = ((clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in clues)
    return [{"token": token, "from": token_origin(token), "log_ratio": log_ratio} for token, log_ratio in ratios]


def _weight_in_messages(count: int | None) -> float | None:
    return None if count is None else count / WEIGHT_ONE
