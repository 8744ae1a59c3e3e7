"""The OpenAPI 3.1 document of nbstream's own API: its paths, and the schemas of ``wire.answers``.

The schemas are in ``schemas.json``, which `make reference` writes with pydantic from the types. They are not made
at the start of a daemon, because that would delay it. Tests compare the running listener with the document, and
generate requests from it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from nbstream.bayes.counts import CLASSES
from nbstream.server.api_json import PROBLEM_TYPE, TEXT_TYPE

JsonObject = dict[str, Any]

SCHEMAS = Path(__file__).with_name("schemas.json")

_STRING: JsonObject = {"type": "string"}
_ID: JsonObject = {"type": "string", "pattern": "^[a-z2-7]{24}$"}

_PROBLEMS = {
    400: "The request cannot be understood; `detail` says what is wrong.",
    401: "The password is missing or wrong.",
    403: "The request comes from a web page.",
    404: "Nothing is known by this id.",
    408: "The body did not arrive in time.",
    413: "The body is larger than `limits.max_message_bytes`.",
    415: "The body is compressed or encrypted.",
    429: "Too many wrong passwords came from this address: none is compared for the rest of the minute.",
    503: "Not now: Redis is away, or too much is under way. The same request may be made again.",
}
_PROBLEMS_OF_ALL = (401, 403, 429, 503)
_PROBLEMS_WITH_BODY = (400, 401, 403, 408, 413, 415, 429, 503)


def document(version: str, class_names: Sequence[str] = CLASSES) -> JsonObject:
    """Return the document for this version of the program, and a model with these classes."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "nbstream", "version": version, "description": _DESCRIPTION},
        "paths": {
            "/v1/check": {"post": _check()},
            "/v1/learn": {"post": _learn(class_names)},
            "/v1/unlearn": {"post": _unlearn()},
            "/v1/messages/{id}": {"get": _message()},
            "/v1/model": {"get": _model()},
            "/v1/openapi.json": {"get": _describe()},
        },
        "components": {
            "schemas": json.loads(SCHEMAS.read_text(encoding="utf-8")),
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "password": {"type": "apiKey", "in": "header", "name": "Password"},
            },
        },
    }


_DESCRIPTION = (
    "Checks messages for spam and learns from people. A body of type text/plain is text that is no mail, such as "
    "a comment; of any other type it is a message with its header. Peers on this machine need no password unless "
    "the configuration says so."
)


def _check() -> JsonObject:
    return _operation(
        "check", "Check a message; nothing is learned.", _ref("Check"), _PROBLEMS_WITH_BODY, body=True
    )


def _learn(class_names: Sequence[str]) -> JsonObject:
    label = {
        "name": "label",
        "in": "query",
        "required": True,
        "schema": {"type": "string", "enum": list(class_names)},
        "description": "The label to learn: a class of `model.classes`.",
    }
    operation = _operation(
        "learn",
        "Learn a label of a message. It may be repeated; another label replaces the former one.",
        _ref("Lesson"),
        _PROBLEMS_WITH_BODY,
        body=True,
    )
    return {**operation, "parameters": [label, _USER]}


def _unlearn() -> JsonObject:
    operation = _operation(
        "unlearn",
        "Take back exactly what a message was learned as.",
        _ref("Lesson"),
        _PROBLEMS_WITH_BODY,
        body=True,
    )
    return {**operation, "parameters": [_USER]}


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
    operation = _operation(
        "message",
        "What is known of a message: its last check and why, what it was learned as, and its verdict now.",
        _ref("Known"),
        (*_PROBLEMS_OF_ALL, 404),
    )
    return {**operation, "parameters": [name]}


def _model() -> JsonObject:
    return _operation("model", "What the model has learned, and its thresholds.", _ref("Model"), _PROBLEMS_OF_ALL)


def _describe() -> JsonObject:
    operation = _operation("describe", "This document.", {"type": "object"}, (403,))
    return {**operation, "security": []}


def _operation(
    name: str, summary: str, answer: JsonObject, problems: tuple[int, ...], *, body: bool = False
) -> JsonObject:
    answers: JsonObject = {"200": {"description": "Done.", "content": {"application/json": {"schema": answer}}}}
    for status in sorted(problems):
        content = {PROBLEM_TYPE: {"schema": _ref("Problem")}}
        answers[str(status)] = {"description": _PROBLEMS[status], "content": content}
    operation: JsonObject = {
        "operationId": name,
        "summary": summary,
        "security": [{}, {"bearer": []}, {"password": []}],
        "responses": answers,
    }
    if body:
        operation["requestBody"] = {"required": True, "content": _BODIES}
    return operation


_NOT_EMPTY: JsonObject = {"type": "string", "pattern": "[^ \\t\\r\\n\\f\\v]"}
_BODIES: JsonObject = {
    name: {"schema": _NOT_EMPTY} for name in ("message/rfc822", "application/octet-stream", TEXT_TYPE)
}


def _ref(name: str) -> JsonObject:
    return {"$ref": f"#/components/schemas/{name}"}
