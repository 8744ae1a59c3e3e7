"""Our own API over HTTP, version 1: what is read of requests, and the bodies of answers.

Rules: pure; an answer holds neither an exception nor a path nor an address of this house, and every number in it
is finite, so that it is JSON everywhere. ``wire.answers`` has the shapes.
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
    """Why a request is not answered, in words that a client may see (RFC 9457)."""

    status: int
    detail: str

    def body(self) -> answers.Problem:
        """The members of the problem; its type is that of its status."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ModelStatus:
    """What is told of the model; ``lag_seconds`` are those since the counts were last known to equal Redis."""

    name: str
    state: ModelState
    tokens: int
    thresholds: Thresholds
    lag_seconds: float


def is_message_id(text: str) -> bool:
    """Whether it may be the id of a message."""
    return _MESSAGE_ID.fullmatch(text) is not None


def check_to_json(found: Check, model: str) -> answers.Check:
    """The answer to a check by the model of that name; ``score`` is in nats, before calibration."""
    return {
        "id": found.id,
        "verdict": str(found.verdict),
        "probability": found.probability,
        "score": found.score,
        "reason": found.reason,
        "model": model,
        "learned": explanation_json.learned(found.state),
        "needed": dict(found.state.needed),
        "thresholds": explanation_json.thresholds_to_json(found.thresholds),
        "clues": explanation_json.clues_to_json(found.clues),
    }


def lesson_to_json(taught: Lesson) -> answers.Lesson:
    """The answer to feedback: what it did, and what is thought of the message before and after."""
    return {
        "id": taught.after.id,
        "outcome": str(taught.outcome),
        "label": taught.label,
        "before": _assessment_to_json(taught.before),
        "after": _assessment_to_json(taught.after),
        "learned": explanation_json.learned(taught.after.state),
        "needed": dict(taught.after.state.needed),
        "told": describe_lesson(taught),
    }


def model_to_json(facts: ModelStatus) -> answers.Model:
    """The state of the model."""
    return {
        "name": facts.name,
        "state": str(facts.state),
        "learned": explanation_json.learned(facts.state),
        "needed": dict(facts.state.needed),
        "tokens": facts.tokens,
        "thresholds": explanation_json.thresholds_to_json(facts.thresholds),
        "lag_seconds": facts.lag_seconds,
    }


def health_to_json(*, ready: bool, degraded: Mapping[str, str]) -> dict[str, Any]:
    """Whether mail can be scored and relayed, and what is degraded."""
    return {"ready": ready, "degraded": dict(degraded)}


def _assessment_to_json(found: Check) -> answers.Opinion:
    return {"verdict": str(found.verdict), "probability": found.probability}
