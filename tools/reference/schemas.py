"""The schemas of the OpenAPI document, from the types of the answers, by pydantic."""

from __future__ import annotations

import json
from typing import Any, TypeAlias

from pydantic import TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from nbstream.server import answers

_Answer: TypeAlias = answers.Check | answers.Known | answers.Lesson | answers.Model | answers.Problem


class _AnswerSchemas(GenerateJsonSchema):
    """Pydantic's schemas without titles; an object has no other members than those that are named."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        """Return False: a title would repeat the name of the member."""
        return False

    def typed_dict_schema(self, schema: core_schema.TypedDictSchema) -> JsonSchemaValue:
        """Return the schema of an object with all its members and no others."""
        object_schema = super().typed_dict_schema(schema)
        object_schema.pop("title", None)
        return {**object_schema, "additionalProperties": False}


def text() -> str:
    """Return the schemas as JSON, by their names."""
    document = TypeAdapter[Any](_Answer).json_schema(
        ref_template="#/components/schemas/{model}", schema_generator=_AnswerSchemas
    )
    return json.dumps(document["$defs"], indent=1) + "\n"
