"""The OpenAPI 3.1 document of our own API: what ``wire.api_v1`` and ``wire.explanation_json`` make, in words.

Tests hold the running door to it, and generate their requests from it.
"""

from __future__ import annotations

from typing import Any

from nbstream.bayes.counts import CLASSES
from nbstream.filter.results import Outcome
from nbstream.policy.verdict import Verdict
from nbstream.wire.api_v1 import PROBLEM_TYPE, TEXT_TYPE

JsonObject = dict[str, Any]

_STRING: JsonObject = {"type": "string"}
_NUMBER: JsonObject = {"type": "number"}
_COUNT: JsonObject = {"type": "integer", "minimum": 0}
_MAYBE_NUMBER: JsonObject = {"type": ["number", "null"]}
_PROBABILITY: JsonObject = {"type": "number", "minimum": 0, "maximum": 1}
_ID: JsonObject = {"type": "string", "pattern": "^[a-z2-7]{24}$"}
_VERDICT: JsonObject = {"type": "string", "enum": [str(each) for each in Verdict]}
_LABEL: JsonObject = {"type": "string", "enum": list(CLASSES)}

_PROBLEMS = {
    400: "The request cannot be understood; `detail` says what is wrong.",
    401: "The password is missing or wrong.",
    403: "The request comes from a web page.",
    404: "Nothing is known by this id.",
    408: "The body did not arrive in time.",
    413: "The body is larger than `listeners.http.max_message_bytes`.",
    415: "The body is compressed or encrypted.",
    503: "Not now: Redis is away, or too much is under way. The same request may be made again.",
}
_OF_ALL = (401, 403, 503)
_OF_BODIES = (400, 401, 403, 408, 413, 415, 503)


def document(version: str) -> JsonObject:
    """The document of this version of the program."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "nbstream", "version": version, "description": _ABOUT},
        "paths": {
            "/v1/check": {"post": _check()},
            "/v1/learn": {"post": _learn()},
            "/v1/unlearn": {"post": _unlearn()},
            "/v1/messages/{id}": {"get": _message()},
            "/v1/model": {"get": _model()},
            "/v1/openapi.json": {"get": _self()},
        },
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "password": {"type": "apiKey", "in": "header", "name": "Password"},
            },
        },
    }


_ABOUT = (
    "Checks messages for spam and learns from people. A body of type text/plain is text that is no mail, such as "
    "a comment; of any other type it is a message with its header. Peers on this machine need no password unless "
    "the configuration says so."
)


def _check() -> JsonObject:
    return _operation("check", "Check a message; nothing is learned.", _ref("Check"), _OF_BODIES, body=True)


def _learn() -> JsonObject:
    label = {"name": "label", "in": "query", "required": True, "schema": _LABEL, "description": "What it is."}
    told = _operation(
        "learn",
        "Learn what a message is. It may be repeated; another label than before replaces that.",
        _ref("Lesson"),
        _OF_BODIES,
        body=True,
    )
    return {**told, "parameters": [label, _USER]}


def _unlearn() -> JsonObject:
    told = _operation(
        "unlearn", "Take back exactly what a message was learned as.", _ref("Lesson"), _OF_BODIES, body=True
    )
    return {**told, "parameters": [_USER]}


_USER: JsonObject = {
    "name": "User",
    "in": "header",
    "required": False,
    "schema": _STRING,
    "description": "Who teaches, for the history, in 100 characters; without it, the address of the client.",
}


def _message() -> JsonObject:
    name = {
        "name": "id",
        "in": "path",
        "required": True,
        "schema": _ID,
        "description": "As in the message's X-Nbstream field.",
    }
    told = _operation(
        "message",
        "What is known of a message: how it was checked and why, what it was learned as, what is thought now.",
        _ref("Known"),
        (*_OF_ALL, 404),
    )
    return {**told, "parameters": [name]}


def _model() -> JsonObject:
    return _operation("model", "What the model has learned, and its thresholds.", _ref("Model"), _OF_ALL)


def _self() -> JsonObject:
    told = _operation("describe", "This document.", {"type": "object"}, (403,))
    return {**told, "security": []}


def _operation(
    name: str, summary: str, answer: JsonObject, problems: tuple[int, ...], *, body: bool = False
) -> JsonObject:
    answers: JsonObject = {"200": {"description": "Done.", "content": {"application/json": {"schema": answer}}}}
    for status in sorted(problems):
        content = {PROBLEM_TYPE: {"schema": _ref("Problem")}}
        answers[str(status)] = {"description": _PROBLEMS[status], "content": content}
    told: JsonObject = {
        "operationId": name,
        "summary": summary,
        "security": [{}, {"bearer": []}, {"password": []}],
        "responses": answers,
    }
    if body:
        told["requestBody"] = {"required": True, "content": _BODIES}
    return told


_NOT_EMPTY: JsonObject = {"type": "string", "pattern": "[^ \\t\\r\\n\\f\\v]"}
_BODIES: JsonObject = {
    name: {"schema": _NOT_EMPTY} for name in ("message/rfc822", "application/octet-stream", TEXT_TYPE)
}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}


def _object(**members: JsonObject) -> JsonObject:
    """An object that has these members, all of them, and no others."""
    return {
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def _maybe(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: JsonObject) -> JsonObject:
    return {"type": "array", "items": schema}


def _schemas() -> JsonObject:
    by_class = _object(**dict.fromkeys(CLASSES, _COUNT))
    needed = {"type": "object", "additionalProperties": _COUNT}
    thresholds = _object(
        unsure=_PROBABILITY,
        spam=_MAYBE_NUMBER,
        reject=_MAYBE_NUMBER,
        promise=_STRING,
        promised={"type": "boolean"},
    )
    clue = _object(**{"token": _STRING, "from": _STRING, "log_ratio": _NUMBER})
    counted = _object(
        **{
            "token": _STRING,
            "from": _STRING,
            "ham": _MAYBE_NUMBER,
            "spam": _MAYBE_NUMBER,
            "log_ratio": _NUMBER,
            "sum": _NUMBER,
        }
    )
    known = {"learned": by_class, "needed": needed}
    opinion = _object(verdict=_VERDICT, probability=_PROBABILITY)
    return {
        "Problem": _object(
            type=_STRING, title=_STRING, status={"type": "integer", "minimum": 400, "maximum": 599}, detail=_STRING
        ),
        "Thresholds": thresholds,
        "Opinion": opinion,
        "Check": _object(
            id=_ID,
            verdict=_VERDICT,
            probability=_PROBABILITY,
            score=_NUMBER,
            reason=_STRING,
            model=_STRING,
            **known,
            thresholds=_ref("Thresholds"),
            clues=_list(clue),
        ),
        "Lesson": _object(
            id=_ID,
            outcome={"type": "string", "enum": [str(each) for each in Outcome]},
            label=_maybe(_LABEL),
            before=_ref("Opinion"),
            after=_ref("Opinion"),
            **known,
            told=_STRING,
        ),
        "Explanation": _object(
            time={"type": "string", "format": "date-time"},
            verdict=_VERDICT,
            reason=_STRING,
            probability=_PROBABILITY,
            score=_NUMBER,
            prior=_NUMBER,
            thresholds=_ref("Thresholds"),
            **known,
            clues=_list(counted),
        ),
        "Known": _object(
            id=_ID,
            remembered=_maybe(_object(verdict=_VERDICT, probability=_PROBABILITY, policy=_STRING)),
            learned=_maybe(_object(label=_LABEL, time=_STRING, source=_STRING, actor=_STRING)),
            then=_maybe(_ref("Explanation")),
            now=_ref("Explanation"),
        ),
        "Model": _object(
            name=_STRING,
            state=_STRING,
            **known,
            tokens=_COUNT,
            thresholds=_ref("Thresholds"),
            lag_seconds={"type": "number", "minimum": 0},
        ),
    }
