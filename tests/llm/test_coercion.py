from __future__ import annotations

from typing import Any

import pytest

from graph_agent.llm.response_parsing import coerce_numbers

INTEGER = {"type": "integer"}
NODE = {"$defs": {"Node": {"properties": {"n": INTEGER, "next": {"$ref": "#/$defs/Node"}}}}, "$ref": "#/$defs/Node"}


@pytest.mark.parametrize(
    ("value", "schema", "becomes"),
    [
        (3.0, INTEGER, 3),
        (1e20, INTEGER, 10**20),
        (-0.0, INTEGER, 0),
        (3.5, INTEGER, 3.5),
        (True, INTEGER, True),
        ("3.0", INTEGER, "3.0"),
        (3.0, {"type": "number"}, 3.0),
        (3, {"type": "number"}, 3),
        (3.0, {"type": ["integer", "null"]}, 3),
        (3.0, {"type": ["integer", "number"]}, 3.0),
        (3.0, {"anyOf": [INTEGER, {"type": "string"}]}, 3),
        (3.0, {"oneOf": [INTEGER, {"type": "number"}]}, 3.0),
        (3.0, {"allOf": [{"minimum": 1}, INTEGER]}, 3),
        ([1.0, 2.5], {"items": INTEGER}, [1, 2.5]),
        ([1.0, 2.0], {"prefixItems": [INTEGER], "items": {"type": "number"}}, [1, 2.0]),
        ({"a": 1.0, "b": 1.0}, {"properties": {"a": INTEGER}}, {"a": 1, "b": 1.0}),
        ({"a": 1.0}, {"additionalProperties": INTEGER}, {"a": 1}),
        ({"a": 1.0}, {"additionalProperties": True}, {"a": 1.0}),
        ({"n": 1.0, "next": {"n": 2.0, "next": None}}, NODE, {"n": 1, "next": {"n": 2, "next": None}}),
        (3.0, {"$ref": "#/$defs/Missing"}, 3.0),
        (3.0, {"$ref": "https://elsewhere/schema"}, 3.0),
        (3.0, {"$ref": "#"}, 3.0),
        (3.0, {"anyOf": "nonsense", "type": 7}, 3.0),
        (3.0, True, 3.0),
    ],
)
def test_a_number_is_converted_to_the_type_in_the_schema(value: Any, schema: Any, becomes: Any) -> None:
    assert repr(coerce_numbers(value, schema, schema)) == repr(becomes)


def test_a_reference_to_itself_ends() -> None:
    loop = {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"anyOf": [{"$ref": "#/$defs/A"}, INTEGER]}}}
    assert coerce_numbers(3.0, loop, loop) == 3


def test_a_schema_with_two_references_to_itself_takes_linear_time() -> None:
    itself = {"$ref": "#"}
    tree = {"anyOf": [INTEGER, {"type": "array", "items": itself}, {"type": ["array", "null"], "items": itself}]}
    value, becomes = 3.0, 3
    for _ in range(60):
        value, becomes = [value], [becomes]  # type: ignore[assignment]  # the lists replace the values
    assert repr(coerce_numbers(value, tree, tree)) == repr(becomes)
