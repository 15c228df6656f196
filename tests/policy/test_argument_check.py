"""Arguments against strangers' schemas: closed to every depth, in bounded time, refusing what cannot be checked."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.policy.schema.check import ArgumentCheck, UncheckedError
from graph_agent.policy.schema.strict import SchemaRefusedError


def check(schema: dict[str, Any]) -> ArgumentCheck:
    return ArgumentCheck(json.dumps(schema))


def fits(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return check(schema).slip(arguments) is None


DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
ROW = {"type": "object", "properties": {"n": {"type": "integer"}}}
A_ROW = {"properties": {"a": ROW}}
NODE = {"properties": {"name": {}, "child": {"$ref": "#/$defs/node"}}}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"properties": {"a": {"$ref": "#/$defs/r"}}, "$defs": {"r": ROW}}, {"a": {"n": 1}}, {"a": {"n": 1, "m": 2}}),
        ({"properties": {"a": {"$ref": "#/definitions/r"}}, "definitions": {"r": ROW}}, {"a": {}}, {"a": {"m": 2}}),
        ({"$ref": "#/$defs/node", "$defs": {"node": NODE}}, {"child": {"child": {}}}, {"child": {"child": {"x": 1}}}),
        ({"properties": {"name": {}, "child": {"$ref": "#"}}}, {"child": {"name": 1}}, {"child": {"x": 1}}),
        ({"$dynamicAnchor": "n", "properties": {"c": {"$dynamicRef": "#n"}}}, {"c": {"c": {}}}, {"c": {"c": {"d": 1}}}),
        ({"properties": {"c": {"$ref": "#r"}}, "$defs": {"x": {**ROW, "$anchor": "r"}}}, {"c": {"n": 1}}, {"c": {"m": 1}}),
        ({"$id": "urn:x", "properties": {"c": {"$ref": "urn:x#/$defs/r"}}, "$defs": {"r": ROW}}, {"c": {}}, {"c": {"m": 1}}),
        ({"properties": {"rows": {"prefixItems": [ROW], "items": ROW}}}, {"rows": [{}, {"n": 1}]}, {"rows": [{}, {"m": 1}]}),
        ({"properties": {"rows": {"prefixItems": [ROW], "items": ROW}}}, {"rows": [{"n": 1}]}, {"rows": [{"m": 1}]}),
        ({"additionalProperties": ROW}, {"any": {"n": 1}}, {"any": {"m": 1}}),
        ({"patternProperties": {"^x-": ROW}}, {"x-a": {"n": 1}}, {"x-a": {"m": 1}}),
        ({"properties": {"p": {"patternProperties": {"^x-": {}}}}}, {"p": {"x-a": 1}}, {"p": {"y": 1}}),
        ({"properties": {"a": {"anyOf": [{"type": "null"}, ROW]}}}, {"a": {"n": 1}}, {"a": {"m": 1}}),
        ({"properties": {"a": {"allOf": [ROW, {"properties": {"m": {}}}]}}}, {"a": {"n": 1, "m": 1}}, {"a": {"k": 1}}),
        ({"allOf": [{"properties": {"a": ROW}}]}, {"a": {"n": 1}}, {"a": {"m": 1}}),
        ({"oneOf": [{"properties": {"a": ROW}, "required": ["a"]}, {"properties": {"b": {}}}]}, {"b": 1}, {"a": {"m": 1}}),
        ({"properties": {"k": {}}, "if": {"required": ["k"]}, "then": A_ROW}, {"k": 1, "a": {}}, {"k": 1, "a": {"m": 1}}),
        ({"properties": {"k": {}}, "dependentSchemas": {"k": A_ROW}}, {"k": 1, "a": {}}, {"k": 1, "a": {"m": 1}}),
        ({"properties": {"k": {}}, "dependentSchemas": {"k": A_ROW}}, {"k": 1, "a": {}}, {"a": {}}),
        ({"properties": {"t": {"items": [ROW], "additionalItems": False}}, **DRAFT_7}, {"t": [{}]}, {"t": [{"m": 1}]}),
        ({"properties": {"t": {"items": [ROW], "additionalItems": False}}, **DRAFT_7}, {"t": [{}]}, {"t": [{}, {}]}),
        ({"properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}, **DRAFT_7}, {"a": 1, "b": 1}, {"a": 1}),
        # The schema of an inner value may not bring a validator of its own.
        ({"properties": {"a": {**DRAFT_7, **ROW}}}, {"a": {"n": 1}}, {"a": {"m": 1}}),
    ],
)  # fmt: skip
def test_a_schema_is_closed_as_deep_as_its_shape_is_declared(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert fits(schema, good)
    assert not fits(schema, bad)


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"a": {"type": "object"}}},
        {"properties": {"a": True}},
        {"properties": {"a": {**ROW, "additionalProperties": True}}},
        {"properties": {"a": {**ROW, "unevaluatedProperties": True}}},
        {"properties": {"a": {"type": "object", "additionalProperties": {"type": "integer"}}}},
        {"properties": {"a": {"type": "object", "required": ["x"]}}},
        {"properties": {"a": {"anyOf": [{"type": "null"}, {"type": "object"}]}}},
        {"properties": {"a": {"anyOf": [ROW, {"type": "object"}]}}},
        {"properties": {"a": {"oneOf": [{**ROW, "required": ["n"]}, {"type": ["object", "null"]}]}}},
        {"properties": {"a": {"$ref": "#/$defs/m"}}, "$defs": {"m": {"type": "object"}}},
        {"properties": {"a": {"not": {"properties": {"x": {"const": 2}}, "required": ["x"]}}}},
    ],
)
def test_what_a_schema_leaves_open_on_purpose_stays_open(schema: dict[str, Any]) -> None:
    assert fits(schema, {"a": {"x": 1, "y": 2}})


def test_closing_never_permits_what_the_original_refuses() -> None:
    """A branch that holds only while it is open is a second match; closed alone, the first one would be the only one."""
    inner: list[dict[str, Any]] = [
        {"properties": {"p": {"properties": {"a": {}}}}},
        {"properties": {"p": {"properties": {"b": {}}}}},
    ]
    assert not fits({"oneOf": inner}, {"p": {"a": 1}})
    assert not fits({"properties": {"p": {}}, "not": inner[0]}, {"p": {"z": 1}})
    holding = {"type": "array", "contains": {"properties": {"a": {"properties": {}}}}, "maxContains": 1}
    assert not fits({"properties": {"p": holding}}, {"p": [{"a": {"z": 1}}, {}]})


names = st.sampled_from(["a", "b", "c"])
leaves = st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["", "a", "ab"])
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3), max_leaves=8
)
assertions = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["object", "array", "string", "integer", ["object", "null"]]),
        "required": st.lists(names, unique=True, max_size=2),
        "const": leaves,
        "enum": st.lists(leaves, min_size=1, max_size=3),
        "pattern": st.sampled_from(["^a", "b$", "^(?!b)"]),
        "minimum": st.integers(-1, 1),
        "maxProperties": st.integers(0, 2),
        "uniqueItems": st.booleans(),
        "multipleOf": st.just(2),
    },
)


def _schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    named = st.dictionaries(names, inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    return st.builds(
        lambda plain, more: {**plain, **more},
        assertions,
        st.fixed_dictionaries(
            {},
            optional={
                "properties": named,
                "patternProperties": st.dictionaries(st.sampled_from(["^a", "b"]), inner, max_size=1),
                "additionalProperties": inner,
                "unevaluatedProperties": inner,
                "items": inner,
                "prefixItems": some,
                "contains": inner,
                "propertyNames": inner,
                "allOf": some,
                "anyOf": some,
                "oneOf": some,
                "not": inner,
                "if": inner,
                "then": inner,
                "else": inner,
                "dependentSchemas": named,
                "$ref": st.sampled_from(["#/$defs/one", "#/$defs/two"]),
            },
        ),
    )


schemas = st.recursive(st.booleans() | assertions, _schemas, max_leaves=6)
documents = st.builds(
    lambda root, one, two: {**root, "$defs": {"one": one, "two": two}}, _schemas(schemas), schemas, assertions
)


@given(documents, st.dictionaries(names, values, max_size=3))
@settings(max_examples=60, deadline=None)
def test_whatever_the_schema_the_closed_copy_permits_only_what_the_original_permits(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    try:
        closed = check(schema)
    except SchemaRefusedError as refused:
        assert "refers to itself" in str(refused)  # noqa: PT017 (whether it is raised is up to the schema)
        return
    if closed.slip(arguments) is None:
        jsonschema.Draft202012Validator(schema).validate(arguments)


@given(documents, st.dictionaries(names, values, max_size=3))
@settings(max_examples=60, deadline=None)
def test_where_all_is_left_open_the_check_is_that_of_json_schema(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    """Nothing else is changed by paying for it and by searching otherwise."""
    schema = {"additionalProperties": True, "allOf": [{"not": {"not": schema}}], "$defs": schema["$defs"]}
    try:
        found = check(schema).slip(arguments)
    except SchemaRefusedError:
        return
    assert (found is None) == jsonschema.Draft202012Validator(schema).is_valid(arguments)


def far_off(keyword: str, steps: int) -> dict[str, Any]:
    """Every step looks three times at the next: three to the power of `steps` in the end."""
    defs = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 3} for n in range(steps)}
    return {"$defs": {**defs, f"d{steps}": {"minProperties": 9}}, "$ref": "#/$defs/d0"}


def grammar(kinds: int) -> dict[str, Any]:
    kind = {"properties": {"left": {"$ref": "#/$defs/node"}}}
    return {"$defs": {"node": {"anyOf": [{**kind, "required": [f"k{n}"]} for n in range(kinds)]}}, "$ref": "#/$defs/node"}


def nested(levels: int) -> dict[str, Any]:
    """Every level asks the one below a second time what it has looked at."""
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"unevaluatedProperties": False, "anyOf": [schema, {"required": ["z"]}]}
    return schema


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    ("schema", "arguments"),
    [
        (far_off("anyOf", 7), {"a": 1}),
        (grammar(3), {"left": {"left": {"left": {"left": {}}}}}),
        ({"properties": {"a": {"uniqueItems": True}}}, {"a": [{"n": n} for n in range(1500)]}),
        ({"properties": {"a": {"contains": {}, "unevaluatedItems": False}}}, {"a": [1] * 6000}),
        ({"properties": {"a": {"pattern": "[ab]*a[ab]{900}!"}}}, {"a": "ab" * 4000}),
    ],
)
def test_what_is_dear_to_check_comes_to_an_end(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    check(schema).slip(arguments)


@pytest.mark.parametrize("schema", [far_off("anyOf", 14), far_off("allOf", 30), grammar(60), nested(25)])
def test_a_schema_that_looks_at_one_value_without_end_stops_the_start(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefusedError, match="too much"):
        check(schema)


@pytest.mark.parametrize(
    ("schema", "small", "large"),
    [
        (grammar(3), {"left": {"left": {}}}, {"left": {"k0": "x" * 10_000}}),
        ({"patternProperties": {f"^{n}x+": True for n in range(190)}}, {"a": 1}, {f"a{n}": 1 for n in range(1500)}),
        ({"properties": {"a": {"items": {"enum": [[n] for n in range(4000)]}}}}, {"a": [0]}, {"a": [[3999]] * 900}),
    ],
)
def test_of_a_dear_schema_only_small_arguments_are_checked(
    schema: dict[str, Any], small: dict[str, Any], large: dict[str, Any]
) -> None:
    assert check(schema).slip(small) is not None
    with pytest.raises(UncheckedError):
        check(schema).slip(large)


def test_honest_arguments_of_the_largest_size_are_checked() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
    schema = {"properties": {"rows": {"items": {"anyOf": [{"type": "null"}, row]}}, "text": {"pattern": "^[^x]+$"}}}
    assert fits(schema, {"rows": [{"n": 1}] * 1000, "text": "a" * 4000})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(x+x+)+y", "^(?=(a+)+$)a*$", "^(?!(a+)+b$)a+$"])
def test_no_pattern_makes_a_search_longer_than_the_text(pattern: str) -> None:
    """Matched with Python's `re`, each of these would outlast the test run."""
    assert not fits({"properties": {"a": {"pattern": pattern}}}, {"a": "a" * 9000 + "!"})


def test_names_are_searched_no_longer_than_texts() -> None:
    assert not fits({"patternProperties": {"^(a+)+$": True}}, {"a" * 5000 + "!": 1})


@pytest.mark.parametrize(
    ("pattern", "good", "bad"),
    [
        (r"^(?!\s*$).+", "a b", "   "),
        (r"^(?!\.)(?!.*\.\.)([a-z.]+)@[a-z]+\.[a-z]{2,}$", "a.b@c.de", "a..b@c.de"),
        (r"^(?=.*[A-Z])(?=.*\d).{8,}$", "Password1", "password1"),
        (r"^(?=[)(|]x)[()|]x$", "(x", "x"),
        (r"^\d{4}-\d{2}$", "2026-01", "2026-01\n"),
        (r"^.{1,1000}$", "x" * 1000, "x" * 1001),
    ],
)
def test_lookaheads_at_the_start_are_understood(pattern: str, good: str, bad: str) -> None:
    schema = {"properties": {"a": {"pattern": pattern}}}
    assert (fits(schema, {"a": good}), fits(schema, {"a": bad})) == (True, False)


@pytest.mark.parametrize("pattern", ["(", "((a{1,1000}){1,1000}){1,1000}", "^(?!", "(" * 9000])
def test_a_pattern_that_no_automaton_can_search_for_stops_the_start(pattern: str) -> None:
    with pytest.raises(SchemaRefusedError, match=r"pattern|not valid"):
        check({"properties": {"a": {"items": {"propertyNames": {"pattern": pattern}}}}})


def deep(levels: int, bottom: dict[str, Any] | None = None) -> dict[str, Any]:
    schema: dict[str, Any] = bottom or {}
    for _ in range(levels):
        schema = {"properties": {"a": schema}}
    return schema


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        ({"type": "no such type"}, "not valid JSON Schema"),
        ({"properties": {"a": {"$ref": "http://127.0.0.1:9/elsewhere.json"}}}, "not in it"),
        ({"$ref": "file:///etc/hosts"}, "not in it"),
        ({"$ref": "#/$defs/none"}, "not in it"),
        ({"$ref": "#/title", "title": "no schema"}, "not in it"),
        ({"$ref": "#"}, "refers to itself"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "itself"),
        (far_off("allOf", 30), "too much"),
        (deep(40), "too deep"),
        (deep(400), "too deep"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}, "too large"),
        ({"description": "x" * 1_000_000}, "too large"),
    ],
)  # fmt: skip
def test_a_schema_that_arguments_cannot_be_checked_against_stops_the_start(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaRefusedError, match=why):
        check(schema)
