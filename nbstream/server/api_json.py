"""JSON of nbstream: its own API over HTTP, version 1, and what commands print with ``--json``.

Rules: pure. An answer contains no exception, no path and no address of this machine, and every number in it is
finite, because JSON has no infinity. ``listeners/http/openapi.json`` has the shapes of the answers.

Explanations, clues and thresholds are the same on the command line and over HTTP.
"""

from __future__ import annotations

import math
import re
from datetime import datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from nbstream.bayes.counts import WEIGHT_ONE
from nbstream.filter.lesson_text import describe_lesson
from nbstream.tokens.origins import token_origin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nbstream.bayes.clues import Clue
    from nbstream.bayes.kinds import KindScores
    from nbstream.filter.filter import MessageRecord
    from nbstream.filter.results import FeedbackResult
    from nbstream.policy.check import Check, Explanation
    from nbstream.policy.verdict import ModelState, Thresholds


JsonObject: TypeAlias = dict[str, Any]

PATH_PREFIX = "/v1/"
PROBLEM_TYPE = "application/problem+json"
TEXT_TYPE = "text/plain"
"""A body of this type is text that is no mail; of every other type it is a message."""

_MESSAGE_ID = re.compile(r"[a-z2-7]{24}")


class HttpProblem(NamedTuple):
    """Why a request is refused, in words that a client may see (RFC 9457)."""

    status: int
    detail: str

    def body(self) -> JsonObject:
        """Return the members of the problem; its type is that of its status."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}


class ModelStatus(NamedTuple):
    """The state of the model; ``lag_seconds`` is the time since the counts were last known to equal Redis."""

    name: str
    state: ModelState
    tokens: int
    thresholds: Thresholds
    lag_seconds: float


def is_message_id(text: str) -> bool:
    """Return whether this text has the form of a message id."""
    return _MESSAGE_ID.fullmatch(text) is not None


def check_to_json(check: Check, model: str) -> JsonObject:
    """Return the answer to a check by the model of this name; ``score`` is in nats, before calibration."""
    listed = check.listed
    return {
        "id": check.id,
        "verdict": str(check.verdict),
        "probability": check.probability,
        "score": check.score,
        "reason": check.reason,
        "model": model,
        "learned": learned_counts(check.state),
        "needed": dict(check.state.needed),
        "thresholds": thresholds_to_json(check.thresholds),
        "clues": clues_to_json(check.clues),
        **kind_to_json(check.kind),
        # Of users it does not say which one.
        **({"listed": {"decision": listed.name, "owner": str(listed.owner)}} if listed else {}),
    }


def kind_to_json(scores: KindScores | None) -> JsonObject:
    """Return the member that says how probable each kind is; there is none where nothing is known of kinds."""
    if scores is None:
        return {}
    kinds: list[JsonObject] = [
        {"name": name, "probability": probability, "clues": clues_to_json(scores.clues[name])}
        for name, probability in scores.probabilities.items()
    ]
    return {"kind": {"name": scores.kind, "kinds": kinds, "missing": dict(scores.missing)}}


def lesson_to_json(lesson: FeedbackResult) -> JsonObject:
    """Return the answer to feedback: what it did, and the verdict on the message before and after."""
    return {
        "id": lesson.after.id,
        "outcome": str(lesson.outcome),
        "label": lesson.class_name,
        "before": _assessment_to_json(lesson.before),
        "after": _assessment_to_json(lesson.after),
        "learned": learned_counts(lesson.after.state),
        "needed": dict(lesson.after.state.needed),
        "told": describe_lesson(lesson),
    }


def model_to_json(status: ModelStatus) -> JsonObject:
    """Return the answer that describes the state of the model."""
    return {
        "name": status.name,
        "state": str(status.state),
        "learned": learned_counts(status.state),
        "needed": dict(status.state.needed),
        "tokens": status.tokens,
        "thresholds": thresholds_to_json(status.thresholds),
        "lag_seconds": status.lag_seconds,
    }


def _assessment_to_json(check: Check) -> JsonObject:
    return {"verdict": str(check.verdict), "probability": check.probability}


def iso_time(seconds: float) -> str:
    """Return a Unix time as ISO 8601 in local time, with its offset from UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds).astimezone().isoformat(timespec="milliseconds")


def _discount_to_json(explanation: Explanation) -> JsonObject | None:
    discount = explanation.discount
    if discount is None:
        return None
    return {
        "probability": explanation.full_probability,
        "taken_back": discount.taken_back,
        "deviations": discount.deviations,
        "groups": [
            {"group": group, "tokens": tokens, "known_from_spam": known}
            for group, tokens, known in discount.new_groups()
        ],
    }


def explanation_to_json(explanation: Explanation) -> JsonObject:
    """Return the whole explanation with all its clues; the counts are numbers of messages, by their weight."""
    return {
        "time": iso_time(explanation.at),
        "verdict": explanation.verdict,
        "reason": explanation.reason,
        "probability": explanation.probability,
        "score": explanation.score,
        "prior": explanation.prior,
        "discount": _discount_to_json(explanation),
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


def message_record_to_json(record: MessageRecord) -> JsonObject:
    """Return what is known of a message by its id: its last check, its label, and why then and why now."""
    remembered, entry = record.checked, record.entry
    last_check: JsonObject | None = None
    if remembered:
        last_check = {
            "verdict": remembered.verdict,
            "probability": remembered.probability,
            "policy": remembered.policy,
        }
    learned_as: JsonObject | None = None
    if entry:
        learned_as = {
            "label": entry.column,
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
        **kind_to_json(record.kind),
    }


def thresholds_to_json(thresholds: Thresholds) -> JsonObject:
    """Return the thresholds; a threshold that is never reached is null."""
    return {
        "unsure": thresholds.unsure,
        "spam": _reachable(thresholds.spam),
        "reject": _reachable(thresholds.reject),
        "guarantee": thresholds.guarantee,
        "guaranteed": thresholds.guaranteed,
    }


def _reachable(threshold: float | None) -> float | None:
    return None if threshold == math.inf else threshold


def learned_counts(state: ModelState) -> JsonObject:
    """Return how many messages of each class are learned."""
    return {"ham": state.learned["ham"], "spam": state.learned["spam"]}


def clues_to_json(clues: Sequence[Clue]) -> list[JsonObject]:
    """Return the clues in their order, the strongest first, each with the part of the message it comes from."""
    ratios = ((clue.token.decode("utf-8", "replace"), clue.log_ratio) for clue in clues)
    return [{"token": token, "from": token_origin(token), "log_ratio": log_ratio} for token, log_ratio in ratios]


def _weight_in_messages(count: int | None) -> float | None:
    return None if count is None else count / WEIGHT_ONE
