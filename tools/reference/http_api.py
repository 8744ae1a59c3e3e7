"""The reference of the HTTP API: every path with its parameters and answers, and every schema, from OpenAPI."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from typing import Any

from nbstream.listeners.http.api_v1 import openapi_document
from tools.reference.markup import NOTICE, Undocumented, definitions, table

JsonObject = dict[str, Any]
Member = tuple[str, str, str]


def page() -> str:
    """Return the page as Markdown. Raises ``Undocumented``."""
    return text_of(openapi_document(""))


def text_of(document: JsonObject) -> str:
    """Return the page of this OpenAPI document. Raises ``Undocumented``."""
    operations = {
        f"{method.upper()} {path}": operation
        for path, of_path in document["paths"].items()
        for method, operation in of_path.items()
    }
    paths = [_operation(name, operation) for name, operation in operations.items()]
    schemas = {name: _members(schema) for name, schema in document["components"]["schemas"].items()}
    uses = Counter(member for members in schemas.values() for member in members)
    most = {member[0]: member for member, count in reversed(uses.most_common()) if count > 1}
    shared = [member for member in uses if most.get(member[0]) == member]
    described = document["components"]["schemas"]
    description = f"\n{document['info']['description']}\n"
    text = (
        NOTICE
        + _INTRODUCTION
        + description
        + _ACCESS
        + "".join(paths)
        + _errors(document["components"]["responses"])
    )
    text += f"\n## Members of several schemas\n\n{definitions(shared)}\n## Schemas\n"
    return text + "".join(
        _schema(name, described[name].get("description", ""), members, shared) for name, members in schemas.items()
    )


_INTRODUCTION = """
# HTTP API

The HTTP listener describes this API itself, as OpenAPI 3.1, at `/v1/openapi.json`; this page is made from the same
document. Errors are `application/problem+json` (RFC 9457), with the members of [Problem](#problem). Every number
in an answer is finite.
"""

_ACCESS = """
A password is sent as `Authorization: Bearer PASSWORD` or as `Password: PASSWORD`.
[`listeners.http`](settings.md#listenershttp) says which clients need one, [`feedback`](settings.md#feedback) which
ones may teach. A request that a web page makes (it has the field `Origin`) is refused.
"""


def _operation(name: str, operation: JsonObject) -> str:
    if not operation.get("summary"):
        raise Undocumented(f"{name} has no summary")
    text = f"\n## {name}\n\n{operation['summary']}\n"
    if "requestBody" in operation:
        types = " or ".join(f"`{kind}`" for kind in operation["requestBody"]["content"])
        text += f"\nThe body is {types}.\n"
    parameters = operation.get("parameters", [])
    if parameters:
        text += "\n" + definitions(_parameter(name, parameter) for parameter in parameters)
    successes = [item for item in operation["responses"].items() if not _is_error(item[0])]
    errors = [status for status in operation["responses"] if _is_error(status)]
    text += "\n" + " ".join(f"Status {status}, {_answer(response)}." for status, response in successes)
    return f"{text} [Errors](#errors): {', '.join(errors)}.\n"


def _is_error(status: str) -> bool:
    return int(status) >= 400


def _errors(responses: JsonObject) -> str:
    """Return what each error means; it means the same for all operations."""
    meanings = {status: response["description"] for status, response in responses.items()}
    return "\n## Errors\n\n" + table(("status", "meaning"), sorted(meanings.items()))


def _parameter(operation: str, parameter: JsonObject) -> tuple[str, str, str]:
    if not parameter.get("description"):
        raise Undocumented(f"the parameter {parameter['name']} of {operation} has no description")
    remark = f"{_location(parameter)}; {_type(parameter['schema'])}"
    return parameter["name"], remark, parameter["description"]


def _answer(response: JsonObject) -> str:
    return ", ".join(f"`{kind}`: {_type(media['schema'])}" for kind, media in response["content"].items())


def _location(parameter: JsonObject) -> str:
    words = {"query": "in the query", "path": "in the path", "header": "a header field"}
    return words[parameter["in"]] + ("" if parameter["required"] else ", may be left out")


def _members(schema: JsonObject) -> list[Member]:
    """Return the name, the type and the meaning of each member."""
    return [
        (member, _type(detail), detail.get("description", "")) for member, detail in schema["properties"].items()
    ]


def _schema(name: str, description: str, members: list[Member], shared: Collection[Member]) -> str:
    if not description:
        raise Undocumented(f"the schema {name} has no description")
    own = [member for member in members if member not in shared]
    names = ", ".join(f"`{member[0]}`" for member in members if member in shared)
    text = f"\n### {name}\n\n{description}\n" + f"\n{definitions(own)}" * bool(own)
    return text + f"\nAnd {names}.\n" * bool(names)


def _type(schema: JsonObject) -> str:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema["type"] == "array":
        return f"array of {_type(schema['items'])}"
    if schema.get("additionalProperties"):
        return f"object with members of {_type(schema['additionalProperties'])}"
    return f"{schema['type']}{_limits(schema)}"


def _limits(schema: JsonObject) -> str:
    if "minimum" in schema and "maximum" in schema:
        return f" from {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f", at least {schema['minimum']}"
    if "pattern" in schema:
        return f" that matches `{schema['pattern']}`"
    return f" ({schema['format']})" if "format" in schema else ""
