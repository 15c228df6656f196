"""Samples of schemas: what a schema demands of an argument that no condition sees."""

from __future__ import annotations

from typing import Any

import pytest

from graph_agent.analysis.schema_samples import Samples
from graph_agent.models.canonical import canonical_json
from graph_agent.policy.schema.check import ArgumentCheck
from tests.mcp.tool_shapes import generated_tools

POINT = {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}
TREE = {"type": "object", "properties": {"kids": {"type": "array", "items": {"$ref": "#/$defs/t"}}}, "required": ["kids"]}


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "$defs": {"p": POINT, "t": TREE}}


@pytest.mark.parametrize(
    "schema",
    [
        of(a={"type": "string", "pattern": "^[a-z]{3}$"}, b={"type": "string", "format": "date"}, c={"minLength": 4}),
        of(a={"enum": [7, 8]}, b={"const": {"k": 1}}, c={"type": ["null", "integer"]}, d={"type": "boolean"}),
        of(
            a={"minimum": 3, "type": "integer"},
            b={"maximum": -2, "type": "number"},
            c={"exclusiveMaximum": 1, "type": "integer"},
        ),
        of(a={"$ref": "#/$defs/p"}, b={"allOf": [{"$ref": "#/$defs/p"}, {"required": ["y"], "properties": {"y": {}}}]}),
        of(a={"oneOf": [POINT, {"type": "string"}]}, b={"anyOf": [{"type": "array", "items": POINT, "minItems": 2}, {}]}),
        of(a={"$ref": "#/$defs/t"}, b={"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/t"}}),
        *(tool["inputSchema"] for tool in generated_tools(24)),
    ],
)
def test_a_sample_fits_its_schema(schema: dict[str, Any]) -> None:
    assert ArgumentCheck(canonical_json(schema)).first_issue(Samples(schema).sample(schema)) is None


def test_what_is_there_is_kept_and_an_alternative_can_be_chosen() -> None:
    schema = of(to={"oneOf": [of(kind={"const": "id"}, id={"type": "integer"}), of(kind={"const": "name"}, name={})]})
    assert Samples(schema).completed({"to": {"kind": "id"}}, schema) == {"to": {"kind": "id", "id": 1}}
    assert Samples(schema, 1).completed({"to": {"kind": "name"}}, schema) == {"to": {"kind": "name", "name": "x"}}


def test_a_text_of_a_list_is_made_long_enough() -> None:
    schema = of(paths={"type": "array", "items": {"type": "string", "minLength": 1}})
    assert Samples(schema).completed({"paths": ["", "b"]}, schema) == {"paths": ["x", "b"]}


def test_a_schema_that_never_ends_has_a_sample_that_does() -> None:
    endless = {"type": "object", "properties": {"me": {"$ref": "#"}}, "required": ["me"]}
    assert Samples(endless).sample(endless)["me"]["me"]
