"""The Cedar types of JSON Schemas, and the schemas of the official servers."""

from __future__ import annotations

from typing import Any

import pytest
from cedarpy import Schema
from hypothesis import given
from hypothesis import strategies as st

from graph_agent.policy.cedar.schema import ToolAction, cedar_schema, quoted
from graph_agent.policy.cedar.types import CedarType, Kind, arguments_type

TEXT = {"type": "string"}
A, B = {"properties": {"a": TEXT}, "required": ["a"]}, {"properties": {"b": TEXT}}
NEEDS_B = {**B, "required": ["b"]}
OBJECTS = 'hidden: a list of objects: Cedar has no "any"'


def shown(type_: CedarType) -> Any:
    """Return a type in short: `String`, `[Long]`, `{field?: type}`, or the reason why it is hidden."""
    match type_.kind:
        case Kind.SET:
            assert type_.item is not None
            return [shown(type_.item)]
        case Kind.RECORD | Kind.VARIANT:
            return {f"{one.name}{'' if one.required else '?'}": shown(one.type) for one in type_.fields}
        case Kind.HIDDEN:
            return f"hidden: {type_.why}"
    return str(type_.kind) + (f" of {', '.join(map(str, type_.values))}" if type_.values else "")


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, "String"),
        ({"type": "integer", "minimum": 1}, "Long"),
        ({"type": "number"}, "decimal"),
        ({"type": "boolean"}, "Bool"),
        ({"enum": ["a", "b"]}, "String of a, b"),
        ({"enum": ["a", None]}, "String of a"),
        ({"enum": [1, 2]}, "Long of 1, 2"),
        ({"enum": [1, "a"]}, "hidden: values of several types"),
        ({"const": "a"}, "String of a"),
        ({"type": ["string", "null"]}, "String"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "String"),
        ({"type": ["string", "integer"]}, {"string?": "String", "long?": "Long"}),
        ({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "decimal"),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": TEXT}]}, ["String"]),
        ({"type": "array", "items": {"type": "integer"}}, ["Long"]),
        ({"type": "array", "items": {"enum": ["a"]}}, ["String of a"]),
        ({"type": "array"}, "hidden: a list of items of any type"),
        ({"type": "array", "items": {"type": "object", "properties": {"a": TEXT}}}, OBJECTS),
        ({"type": "array", "items": {"type": "array", "items": TEXT}}, "hidden: a list of lists"),
        ({"type": "array", "prefixItems": [TEXT]}, "hidden: a list of items of any type"),
        ({"type": "object", "properties": {"a": TEXT, "b": TEXT}, "required": ["a"]}, {"a": "String", "b?": "String"}),
        ({"type": "object", "properties": {"a": {"type": ["string", "null"]}}, "required": ["a"]}, {"a?": "String"}),
        ({"type": "object"}, "hidden: an object with free keys"),
        ({"type": "object", "additionalProperties": False}, {}),
        ({"$ref": "#/$defs/name"}, "String"),
        ({"$ref": "#/$defs/tree"}, {"child?": "hidden: it refers to itself"}),
        ({"$ref": "https://example.com/x"}, "hidden: it refers to another document"),
        ({"$ref": "#/$defs/nothing"}, "hidden: it refers to nothing"),
        ({"allOf": [A, B]}, {"a": "String", "b?": "String"}),
        ({"allOf": [{"$ref": "#/$defs/name"}], "description": "x"}, "String"),
        ({"allOf": [{"type": "string"}, {"enum": ["a"]}]}, "String"),
        ({"oneOf": [A, NEEDS_B]}, {"a?": "String", "b?": "String"}),
        ({**B, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"b?": "String"}),
        ({}, "hidden: any value"),
        ({"description": "x"}, "hidden: no type is declared"),
        (False, "hidden: no value is valid"),
        ({"type": "null"}, "hidden: only null"),
    ],
)
def test_the_type_of_an_argument(schema: Any, expected: Any) -> None:
    parameters = {
        "type": "object",
        "properties": {"it": schema},
        "$defs": {"name": TEXT, "tree": {"properties": {"child": {"$ref": "#/$defs/tree"}}}},
    }
    (field,) = arguments_type(parameters).fields
    assert shown(field.type) == expected
    Schema.from_str(cedar_schema([ToolAction.of("act", "s", parameters, writes=True)], ["r"]))


def test_a_reserved_name_is_hidden() -> None:
    found = arguments_type({"type": "object", "properties": {"__entity": TEXT, "__cedar_x": TEXT, "__extn": TEXT}})
    assert shown(found) == {f"{name}?": "hidden: a reserved name" for name in ("__entity", "__cedar_x", "__extn")}


@pytest.mark.parametrize(
    ("more", "is_open"),
    [
        ({}, False),
        ({"additionalProperties": False}, False),
        ({"additionalProperties": True}, True),
        ({"additionalProperties": TEXT}, True),
        ({"patternProperties": {"^x": TEXT}}, True),
        ({"allOf": [{"properties": {"b": TEXT}}]}, True),
    ],
)
def test_a_tool_is_open_if_the_guard_may_accept_undeclared_arguments(more: dict[str, Any], is_open: bool) -> None:
    parameters = {"type": "object", "properties": {"a": TEXT}, **more}
    assert ToolAction.of("act", "s", parameters, writes=True).open is is_open


_LEAVES: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{"type": one} for one in ("string", "integer", "number", "boolean", "null", "object", "array")]
    + [{}, {"enum": ["a", 1]}, {"type": ["string", "integer"]}, {"$ref": "#"}, {"const": 5}, {"enum": ["x", "y"]}]
)


def _schemas(parts: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.text(max_size=4), parts, max_size=3)
    required = st.lists(st.text(max_size=2), max_size=2)
    return st.one_of(
        st.fixed_dictionaries({"type": st.just("object"), "properties": properties, "required": required}),
        st.fixed_dictionaries({"type": st.just("array"), "items": parts}),
        *(st.fixed_dictionaries({word: st.lists(parts, min_size=1, max_size=3)}) for word in ("anyOf", "oneOf", "allOf")),
    )


@given(
    st.dictionaries(st.text(max_size=6), st.recursive(_LEAVES, _schemas, max_leaves=6), max_size=3),
    st.text(min_size=1, max_size=6),
    st.text(min_size=1, max_size=6),
)
def test_cedar_reads_the_schema_of_any_tool(properties: dict[str, Any], tool: str, role: str) -> None:
    action = ToolAction.of(tool, tool, {"type": "object", "properties": properties}, writes=True)
    Schema.from_str(cedar_schema([action], [role]))


def test_a_text_is_quoted_as_cedar_reads_it() -> None:
    assert quoted('a"\\\n\u202eé b') == '"a\\"\\\\\\u{a}\\u{202e}é b"'


def test_references_that_multiply_are_read_up_to_a_limit() -> None:
    # 2 KB of schema stand for a hundred million properties.
    objects = {
        f"a{level}": {"type": "object", "properties": {f"p{n}": {"$ref": f"#/$defs/a{level + 1}"} for n in range(10)}}
        for level in range(8)
    }
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/a0"}}, "$defs": {**objects, "a8": {"type": "string"}}}
    assert "the schema is too large" in str(shown(arguments_type(schema)))
    assert len(cedar_schema([ToolAction.of("t", "s", schema, writes=True)], ())) < 1_000_000
