"""The OpenAPI 3.1 document of our own API: its paths, and the schemas of ``wire.answers``.

The schemas are in ``schemas.json``, which `make reference` writes with pydantic from the types: to make them takes
some 100 ms, which no start of a daemon should. Tests hold the running listener to the document, and generate their
requests from it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nbstream.bayes.counts import CLASSES
from nbstream.wire.api_v1 import PROBLEM_TYPE, TEXT_TYPE

JsonObject = dict[str, Any]

SCHEMAS = Path(__file__).with_name("schemas.json")

_STRING: JsonObject = {"type": "string"}
_ID: JsonObject = {"type": "string", "pattern": "^[a-z2-7]{24}$"}
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
            "schemas": json.loads(SCHEMAS.read_text()),
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
