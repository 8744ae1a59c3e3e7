"""Our own API over HTTP, version 1: what is read of requests, and the bodies of answers.

Rules: pure; an answer holds neither an exception nor a path nor an address of this house, and every number in it
is finite, so that it is JSON everywhere. ``wire.answers`` has the shapes.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from nbstream.filter.lesson_text import tell
from nbstream.wire import explanation_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nbstream.filter.results import Check, Lesson
    from nbstream.policy.verdict import ModelState, Thresholds
    from nbstream.wire import answers

PREFIX = "/v1/"
PROBLEM_TYPE = "application/problem+json"
TEXT_TYPE = "text/plain"
"""A body of this type is text that is no mail; of every other type it is a message."""

_ID = re.compile(r"[a-z2-7]{24}")


@dataclass(frozen=True, slots=True)
class Problem:
    """Why a request is not answered, in words that a client may see (RFC 9457)."""

    status: int
    detail: str

    def body(self) -> answers.Problem:
        """The members of the problem; its type is that of its status."""
        title = HTTPStatus(self.status).phrase
        return {"type": "about:blank", "title": title, "status": self.status, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What is told of the model; ``lag_seconds`` are those since the counts were last known to equal Redis."""

    name: str
    state: ModelState
    tokens: int
    thresholds: Thresholds
    lag_seconds: float


def is_id(text: str) -> bool:
    """Whether it may be the id of a message."""
    return _ID.fullmatch(text) is not None


def check(found: Check, model: str) -> answers.Check:
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
        "thresholds": explanation_json.thresholds(found.thresholds),
        "clues": explanation_json.clues(found.clues),
    }


def lesson(taught: Lesson) -> answers.Lesson:
    """The answer to feedback: what it did, and what is thought of the message before and after."""
    return {
        "id": taught.after.id,
        "outcome": str(taught.outcome),
        "label": taught.label,
        "before": _opinion(taught.before),
        "after": _opinion(taught.after),
        "learned": explanation_json.learned(taught.after.state),
        "needed": dict(taught.after.state.needed),
        "told": tell(taught),
    }


def model(facts: ModelFacts) -> answers.Model:
    """The state of the model."""
    return {
        "name": facts.name,
        "state": str(facts.state),
        "learned": explanation_json.learned(facts.state),
        "needed": dict(facts.state.needed),
        "tokens": facts.tokens,
        "thresholds": explanation_json.thresholds(facts.thresholds),
        "lag_seconds": facts.lag_seconds,
    }


def health(*, ready: bool, degraded: Mapping[str, str]) -> dict[str, Any]:
    """Whether mail can be scored and relayed, and what is degraded."""
    return {"ready": ready, "degraded": dict(degraded)}


def _opinion(found: Check) -> answers.Opinion:
    return {"verdict": str(found.verdict), "probability": found.probability}
