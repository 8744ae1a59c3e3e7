"""nbstream's own API over HTTP, version 1: what is read from requests, and the bodies of answers.

Rules: pure. An answer contains no exception, no path and no address of this machine, and every number in it is
finite, because JSON has no infinity. ``wire.answers`` has the shapes of the answers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from nbstream.filter.lesson_text import describe_lesson
from nbstream.wire import explanation_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.filter.results import Check, Lesson
    from nbstream.policy.verdict import ModelState, Thresholds
    from nbstream.wire import answers

PATH_PREFIX = "/v1/"
PROBLEM_TYPE = "application/problem+json"
TEXT_TYPE = "text/plain"
"""A body of this type is text that is no mail; of every other type it is a message."""

_MESSAGE_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class HttpProblem:
    """Why a request is refused, in words that a client may see (RFC 9457)."""

    status: int
    detail: str

    def body(self) -> answers.Problem:
        """Return the members of the problem; its type is that of its status."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """The state of the model; ``lag_seconds`` is the time since the counts were last known to equal Redis."""

    name: str
    state: ModelState
    tokens: int
    thresholds: Thresholds
    lag_seconds: float


def is_message_id(text: str) -> bool:
    """Return whether this text has the form of a message id."""
    return _MESSAGE_ID.fullmatch(text) is not None


def check_to_json(check: Check, model: str) -> answers.Check:
    """Return the answer to a check by the model of this name; ``score`` is in nats, before calibration."""
    return {
        "id": check.id,
        "verdict": str(check.verdict),
        "probability": check.probability,
        "score": check.score,
        "reason": check.reason,
        "model": model,
        "learned": explanation_json.learned_counts(check.state),
        "needed": dict(check.state.needed),
        "thresholds": explanation_json.thresholds_to_json(check.thresholds),
        "clues": explanation_json.clues_to_json(check.clues),
    }


def lesson_to_json(lesson: Lesson) -> answers.Lesson:
    """Return the answer to feedback: what it did, and the verdict on the message before and after."""
    return {
        "id": lesson.after.id,
        "outcome": str(lesson.outcome),
        "label": lesson.label,
        "before": _assessment_to_json(lesson.before),
        "after": _assessment_to_json(lesson.after),
        "learned": explanation_json.learned_counts(lesson.after.state),
        "needed": dict(lesson.after.state.needed),
        "told": describe_lesson(lesson),
    }


def model_to_json(status: ModelStatus) -> answers.Model:
    """Return the answer that describes the state of the model."""
    return {
        "name": status.name,
        "state": str(status.state),
        "learned": explanation_json.learned_counts(status.state),
        "needed": dict(status.state.needed),
        "tokens": status.tokens,
        "thresholds": explanation_json.thresholds_to_json(status.thresholds),
        "lag_seconds": status.lag_seconds,
    }


def health_to_json(*, ready: bool, degraded: Mapping[str, str]) -> dict[str, Any]:
    """Return the answer about health: whether mail can be scored and relayed, and what is degraded."""
    return {"ready": ready, "degraded": dict(degraded)}


def _assessment_to_json(check: Check) -> answers.Opinion:
    return {"verdict": str(check.verdict), "probability": check.probability}
