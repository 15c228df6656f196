"""Checks against untrusted schemas: strict at every level, in bounded time, refused if the schema cannot be used."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graph_agent.policy.schema.check import ArgumentCheck, CheckTooExpensiveError, ValidationIssue
from graph_agent.policy.schema.keywords import SchemaRefusedError
from tests.examples import examples


def check(schema: dict[str, Any]) -> ArgumentCheck:
    return ArgumentCheck(json.dumps(schema))


def fits(schema: dict[str, Any], arguments: dict[str, Any]) -> bool:
    return check(schema).first_issue(arguments) is None


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
        ({"properties": {"$id": ROW, "c": {"$id": "urn:c", **ROW}}}, {"$id": {"n": 1}, "c": {"n": 1}}, {"c": {"m": 1}}),
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
def test_undeclared_properties_are_rejected_at_every_declared_level(schema: dict[str, Any], good: Any, bad: Any) -> None:
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
def test_objects_that_the_schema_leaves_open_stay_open(schema: dict[str, Any]) -> None:
    assert fits(schema, {"a": {"x": 1, "y": 2}})


X, Y = ({"type": "object", "properties": {name: {"type": "integer"}}} for name in "xy")


def with_a(schema: dict[str, Any]) -> dict[str, Any]:
    return {"properties": {"a": schema}}


def rows_of(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": schema}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"allOf": [with_a(X), with_a(Y)]}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "z": 2}}),
        ({**with_a(X), "allOf": [with_a(Y)]}, {"a": {"x": 1, "y": 2}}, {"a": {"y": 1, "z": 2}}),
        ({"$defs": {"base": with_a(X)}, "$ref": "#/$defs/base", **with_a(Y)}, {"a": {"x": 1, "y": 2}}, {"a": {"z": 2}}),
        ({"allOf": [with_a(with_a(X)), with_a(with_a(Y))]}, {"a": {"a": {"x": 1, "y": 2}}}, {"a": {"a": {"z": 2}}}),
        ({"allOf": [with_a(rows_of(X)), with_a(rows_of(Y))]}, {"a": [{"x": 1, "y": 2}]}, {"a": [{"z": 2}]}),
        (
            {"if": {"required": ["k"]}, "then": with_a(Y), "properties": {"k": {}, "a": X}},
            {"k": 1, "a": {"x": 1, "y": 2}},
            {"k": 1, "a": {"x": 1, "z": 2}},
        ),
        (
            # The alternatives extend the base separately: each is strict by itself.
            {**with_a(X), "anyOf": [with_a({**Y, "required": ["y"]}), {"required": ["b"], "properties": {"b": {}}}]},
            {"a": {"x": 1, "y": 2}},
            {"b": 1, "a": {"x": 1, "y": "no"}},
        ),
        (
            # Elsewhere the shared schema is alone, and strict.
            {
                "$defs": {"base": with_a(X)},
                "properties": {"p": {"$ref": "#/$defs/base", **with_a(Y)}, "q": {"$ref": "#/$defs/base"}},
            },
            {"p": {"a": {"x": 1, "y": 2}}, "q": {"a": {"x": 1}}},
            {"q": {"a": {"x": 1, "y": 2}}},
        ),
        ({"oneOf": [with_a({**X, "required": ["x"]}), with_a({**Y, "required": ["y"]})]}, {"a": {"x": 1}}, {"a": {"z": 1}}),
        ({"anyOf": [with_a(X), with_a(Y)]}, {"a": {"x": 1, "y": 2}}, {"a": {"x": 1, "z": 2}}),
        (
            {"allOf": [with_a(X), with_a({**Y, "additionalProperties": {"type": "integer"}})]},
            {"a": {"x": 1, "z": 2}},
            {"a": {"z": "no"}},
        ),
        (
            {"allOf": [{"properties": {"a/~b": X}}, {"properties": {"a/~b": Y}}]},
            {"a/~b": {"x": 1, "y": 2}},
            {"a/~b": {"x": 1, "z": 2}},
        ),
        # A sibling that does not hold declares nothing.
        (
            {"properties": {"a": X, "b": True}, "anyOf": [{**with_a(Y), "required": ["b"]}, {}]},
            {"a": {"x": 1, "y": 2}, "b": 1},
            {"a": {"x": 1, "y": 2}},
        ),
    ],
)  # fmt: skip
def test_siblings_that_extend_the_same_object_are_strict_together(schema: dict[str, Any], good: Any, bad: Any) -> None:
    assert fits(schema, good)
    assert not fits(schema, bad)


def test_a_property_that_no_sibling_declares_is_reported_at_its_object() -> None:
    issue = check({"allOf": [with_a(X), with_a(Y)]}).first_issue({"a": {"x": 1, "z": 2}})
    assert issue == ValidationIssue("unevaluatedProperties", "a")


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        ({"type": ["integer", "null"]}, "five", 'expected integer or null, got "five"'),
        ({"enum": ["a", "b"]}, 3, 'expected one of "a", "b", got 3'),
        ({"enum": list(range(12))}, 12, "expected one of 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 2 more, got 12"),
        ({"const": 1}, [2], "expected 1, got [2]"),
        ({"maximum": 5}, 9, "expected maximum 5, got 9"),
        ({"maxLength": 1}, "ab", 'expected maxLength 1, got "ab"'),
        ({"pattern": "^a"}, "b\u001b", 'expected pattern "^a", got "b'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, 3, "expected anyOf, got 3"),
        ({"required": ["x"]}, {}, '"x" is missing'),
        ({"properties": {"x": {}}}, {"y": 1}, '"y" is not declared'),
    ],
)
def test_a_violation_says_what_was_expected_and_what_came(schema: dict[str, Any], value: Any, why: str) -> None:
    issue = check({"properties": {"a": schema}}).first_issue({"a": value})
    assert issue is not None
    assert (issue.path, issue.why[: len(why)]) == ("a", why)


def test_a_long_value_is_cut_in_the_explanation() -> None:
    issue = check({"properties": {"a": {"type": "integer"}}}).first_issue({"a": "x" * 5_000})
    assert issue is not None
    assert len(issue.why) < 150


def test_siblings_of_too_many_values_are_rejected_before_their_declarations_are_collected() -> None:
    wide = {
        "properties": {"rows": rows_of({"allOf": [X, Y]})},
        "allOf": [{"properties": {"rows": rows_of({"anyOf": [X] * 200})}}],
    }
    assert fits(wide, {"rows": [{"x": 1, "y": 2}] * 10})
    assert not fits(wide, {"rows": [{"x": 1, "y": 2}] * 600})


def test_many_alternatives_and_siblings_are_compiled_in_bounded_time() -> None:
    union = {"oneOf": [{"properties": {"kind": {"const": n}, "a": X}, "required": ["kind"]} for n in range(150)]}
    assert fits({**union, **with_a(Y)}, {"kind": 3, "a": {"x": 1, "y": 1}})
    recursive = {"properties": {name: {"$ref": "#"} for name in "abcdefgh"}}
    with pytest.raises(SchemaRefusedError, match="too much"):
        check({**recursive, "allOf": [{"properties": {name: {"properties": {"x": {"$ref": "#"}}} for name in "abcdefgh"}}]})


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        # Draft 4 and OpenAPI 3.0
        ({"properties": {"n": {"minimum": 1, "exclusiveMinimum": True}}}, {"n": 2}, {"n": 1}),
        ({"properties": {"n": {"minimum": 1, "exclusiveMinimum": False}}}, {"n": 1}, {"n": 0}),
        ({"properties": {"n": {"maximum": 9, "exclusiveMaximum": True}}}, {"n": 8}, {"n": 9}),
        ({"properties": {"n": {"maximum": 9, "exclusiveMaximum": False}}}, {"n": 9}, {"n": 10}),
        # zod and draft 7
        ({"properties": {"t": {"items": [True, ROW], "additionalItems": False}}}, {"t": ["a", {}]}, {"t": ["a", {}, 1]}),
        ({"properties": {"t": {"items": [{"type": "string"}]}}}, {"t": ["a", 1]}, {"t": [1]}),
        ({"properties": {"t": {"items": []}}}, {"t": [1]}, {"u": []}),
        # Draft 2019-09
        ({"$recursiveAnchor": True, "properties": {"n": ROW, "c": {"$recursiveRef": "#"}}}, {"c": {"n": {}}}, {"c": {"n": 1}}),
        ({"properties": {"n": {}, "c": {"$recursiveRef": "#"}}}, {"c": {"n": 1}}, {"c": {"m": 1}}),
    ],
)  # fmt: skip
def test_keywords_of_older_drafts_and_dialects_are_supported(schema: dict[str, Any], good: Any, bad: Any) -> None:
    for draft in ({}, DRAFT_7, {"$schema": "https://json-schema.org/draft/2019-09/schema"}):
        assert fits({**draft, **schema}, good)
        assert not fits({**draft, **schema}, bad)


UNKNOWN_DRAFTS: list[Any] = [
    "",
    "draft-07",
    "#",
    "../x",
    "not a url",
    "urn:x",
    "json-schema:///x",
    "ftp://127.0.0.1/x",
    7,
    None,
    [],
    {},
]


@pytest.mark.parametrize("draft", [*UNKNOWN_DRAFTS, "http://json-schema.org/draft-03/schema#", "file:///etc/hosts"])
def test_an_unknown_draft_is_read_as_the_current_one(draft: Any) -> None:
    schema = {"$schema": draft, "prefixItems": [], "properties": {"a": {"$schema": draft, "type": "integer"}}}
    assert not fits({**schema, "prefixItems": [True]}, {"a": "x"})
    assert fits({**schema, "prefixItems": [True]}, {"a": 1})


def test_no_schema_opens_a_connection_or_a_file(tmp_path: Path) -> None:
    """Both a listening server and a file would show that they were used."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/schema.json"
        (tmp_path / "meta.json").write_text('{"not": {}}', encoding="utf-8")
        file = (tmp_path / "meta.json").as_uri()
        for place in (url, file):
            assert fits({"$schema": place, "properties": {"a": {"$schema": place}}}, {"a": 1})
            assert fits({"$id": place, "properties": {"a": {"default": {"$schema": place}}}}, {"a": 1})
            for reference in ("$ref", "$dynamicRef", "$recursiveRef"):
                with pytest.raises(SchemaRefusedError):
                    check({"properties": {"a": {reference: place}}})
        with pytest.raises(BlockingIOError):
            listener.accept()


@pytest.mark.parametrize(
    "schema",
    [
        {"properties": {"n": {"exclusiveMinimum": True}}},
        {"properties": {"c": {"$recursiveRef": "#/$defs/x"}}},
        {"properties": []},
        {"items": [True], "prefixItems": [True]},
        {"allOf": {}},
        {"dependencies": 7, "allOf": 1},
    ],
)
def test_what_cannot_be_upgraded_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaRefusedError, match=r"not valid JSON Schema|recursiveRef"):
        check(schema)


def test_the_strict_copy_never_accepts_what_the_original_rejects() -> None:
    """Two branches of the original match, one of the strict copy: the strict copy alone would accept."""
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
@settings(max_examples=examples(60), deadline=None)
def test_for_any_schema_accepted_arguments_are_valid_against_the_original(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    try:
        checked = check(schema)
    except SchemaRefusedError as refused:
        # Recursion that never ends, or more work than one value may cost.
        assert re.search("refers to itself|asks too much of one value", str(refused))  # noqa: PT017 (the schema decides)
        return
    if checked.first_issue(arguments) is None:
        jsonschema.Draft202012Validator(schema).validate(arguments)


@given(documents, st.dictionaries(names, values, max_size=3))
@settings(max_examples=examples(60), deadline=None)
def test_for_an_open_schema_the_check_agrees_with_the_reference_validator(
    schema: dict[str, Any], arguments: dict[str, Any]
) -> None:
    """Neither the cost limit nor the rewritten patterns change a verdict."""
    schema = {"additionalProperties": True, "allOf": [{"not": {"not": schema}}], "$defs": schema["$defs"]}
    try:
        found = check(schema).first_issue(arguments)
    except SchemaRefusedError:
        return
    assert (found is None) == jsonschema.Draft202012Validator(schema).is_valid(arguments)


def far_off(keyword: str, steps: int) -> dict[str, Any]:
    """A chain in which every schema refers three times to the next one: 3 ** steps checks."""
    defs = {f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}] * 3} for n in range(steps)}
    return {"$defs": {**defs, f"d{steps}": {"minProperties": 9}}, "$ref": "#/$defs/d0"}


def grammar(kinds: int) -> dict[str, Any]:
    kind = {"properties": {"left": {"$ref": "#/$defs/node"}}}
    return {"$defs": {"node": {"anyOf": [{**kind, "required": [f"k{n}"]} for n in range(kinds)]}}, "$ref": "#/$defs/node"}


def nested(levels: int) -> dict[str, Any]:
    """Nested `unevaluatedProperties`: every level doubles the cost of the one below."""
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
def test_an_expensive_check_ends_within_the_timeout(schema: dict[str, Any], arguments: dict[str, Any]) -> None:
    check(schema).first_issue(arguments)


@pytest.mark.parametrize("schema", [far_off("anyOf", 14), far_off("allOf", 30), grammar(60), nested(25)])
def test_a_schema_that_multiplies_alternatives_is_refused(schema: dict[str, Any]) -> None:
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
def test_an_expensive_schema_checks_small_arguments_only(
    schema: dict[str, Any], small: dict[str, Any], large: dict[str, Any]
) -> None:
    assert check(schema).first_issue(small) is not None
    with pytest.raises(CheckTooExpensiveError):
        check(schema).first_issue(large)


def test_ordinary_arguments_of_the_largest_size_are_checked() -> None:
    row = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 0}}, "required": ["n"]}
    schema = {"properties": {"rows": {"items": {"anyOf": [{"type": "null"}, row]}}, "text": {"pattern": "^[^x]+$"}}}
    assert fits(schema, {"rows": [{"n": 1}] * 1000, "text": "a" * 4000})


@pytest.mark.parametrize("pattern", ["^(a+)+$", "^(a|a)*$", "(x+x+)+y", "^(?=(a+)+$)a*$", "^(?!(a+)+b$)a+$"])
def test_no_pattern_backtracks(pattern: str) -> None:
    """Matched with Python's `re`, each of these would outlast the test run."""
    assert not fits({"properties": {"a": {"pattern": pattern}}}, {"a": "a" * 9000 + "!"})


def test_property_names_are_searched_without_backtracking() -> None:
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
def test_lookaheads_at_the_start_of_a_pattern_are_supported(pattern: str, good: str, bad: str) -> None:
    schema = {"properties": {"a": {"pattern": pattern}}}
    assert (fits(schema, {"a": good}), fits(schema, {"a": bad})) == (True, False)


@pytest.mark.parametrize("pattern", ["^(?=a)?b", "^(?!a)*b", "^(?=a){0}b", "^(?=a)+b", "^(?!x)(?=a)?b"])
def test_a_lookahead_with_a_quantifier_is_refused(pattern: str) -> None:
    with pytest.raises(SchemaRefusedError):
        check({"properties": {"a": {"pattern": pattern}}})


@pytest.mark.parametrize("pattern", ["(", "((a{1,1000}){1,1000}){1,1000}", "^(?!", "(" * 9000])
def test_a_pattern_that_cannot_be_compiled_within_limits_is_refused(pattern: str) -> None:
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
        ({"properties": {"a": {"$ref": "#/x-a"}}, "x-a": {"enum": 5}}, "not valid JSON Schema"),
        ({"properties": {"a": {"$ref": "#/x-a"}}, "x-a": {"not": {"$ref": "#/x-b"}}, "x-b": {"pattern": 5}}, "not valid"),
        ({"$defs": {"a": {"$id": "urn:a", "$ref": "#/$defs/b", "$defs": {"b": {}}}}, "$ref": "#/$defs/a"}, r"its own \$id"),
        ({"properties": {"a": {"$id": "a.json", "properties": {"b": {"$ref": "b.json"}}}}}, "its own \\$id"),
        ({"properties": {"a": {"$id": "urn:a", "$anchor": "b"}, "b": {"$ref": "#b"}}}, "its own \\$id"),
        ({"properties": {"a": {"$id": "urn:a"}, "b": {"$ref": "urn:a"}}}, "not in it"),
        ({"$ref": "#"}, "refers to itself"),
        ({"$defs": {"a": {"allOf": [{"$ref": "#/$defs/b"}]}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}, "itself"),
        (far_off("allOf", 30), "too much"),
        (deep(40), "too deep"),
        (deep(400), "too deep"),
        ({"properties": {f"p{n}": {"type": "string"} for n in range(10_000)}}, "too large"),
        ({"description": "x" * 1_000_000}, "too large"),
    ],
)  # fmt: skip
def test_a_schema_that_cannot_be_used_is_refused_with_the_reason(schema: dict[str, Any], why: str) -> None:
    with pytest.raises(SchemaRefusedError, match=why):
        check(schema)
