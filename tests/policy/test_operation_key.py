"""The argument with the operation key: its value fits the schema and follows from the key, and only the runtime sets it."""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

import pytest
from jsonschema_rs import validator_for

from graph_agent.errors import ConstitutionError, ToolGrantError
from graph_agent.models.llm import ToolDeclaration
from graph_agent.models.tools import ToolTraits, Transport
from graph_agent.policy.compiled import CompiledPolicy, compile_policy
from graph_agent.policy.constitution import Constitution
from graph_agent.policy.key_location import KeyLocation, KeyPlace
from graph_agent.policy.operation_key import KeyArgumentError, OperationKey, SentKey, takes_key

IN_ARGUMENT = KeyLocation(KeyPlace.ARGUMENT, "key")
OPERATION = "019c0000-0000-7000-8000-000000000001:3"


STDIO = ToolTraits(transport=Transport.STDIO)


def schema(key: dict[str, Any], **more: Any) -> dict[str, Any]:
    properties = {"amount": {"type": "integer"}, "key": key}
    return {"type": "object", "properties": properties, "required": ["amount", "key"], **more}


def value(key: dict[str, Any], operation: str = OPERATION, **more: Any) -> str:
    return OperationKey.of(IN_ARGUMENT, schema(key, **more)).filled(operation).value


@pytest.mark.parametrize(
    "key",
    [
        {},
        {"type": "string"},
        {"type": "string", "format": "uuid"},
        {"anyOf": [{"type": "string", "format": "uuid"}, {"type": "null"}]},
        {"type": ["string", "null"], "maxLength": 36},
        {"type": "string", "maxLength": 20},
        {"type": "string", "minLength": 64, "maxLength": 64},
        {"type": "string", "pattern": "^[A-Za-z0-9]{1,24}$"},
        {"type": "string", "pattern": "^[0-9]{20}$"},
        {"type": "string", "pattern": "^[A-F0-9]{32}$"},
        {"type": "string", "pattern": "^[A-Z]{16,}$"},
        {"type": "string", "pattern": "^pay_[0-9a-f]{24}$"},
        {"$ref": "#/$defs/Key"},
    ],
)
def test_the_value_fits_the_schema_and_is_another_one_for_another_operation(key: dict[str, Any]) -> None:
    definitions = {"$defs": {"Key": {"type": "string", "format": "uuid"}, "When": {"type": "string", "format": "date-time"}}}
    operations = [OPERATION, OPERATION[:-1] + "4", "another:1"]
    values = [value(key, operation, **definitions) for operation in operations]
    assert all(validator_for({**key, **definitions}, validate_formats=True).is_valid(one) for one in values)
    assert len(set(values)) == 3
    assert values == [value(key, operation, **definitions) for operation in operations]


def test_the_value_is_the_operation_key_itself_where_the_schema_permits_it() -> None:
    assert value({"type": "string"}) == OPERATION
    assert UUID(value({"type": "string", "format": "uuid"})).version == 5
    assert re.fullmatch(r"pay_[0-9a-f]{24}", value({"type": "string", "pattern": "^pay_[0-9a-f]{24}$"}))


@pytest.mark.parametrize(
    "key",
    [
        {"type": "integer"},
        {"type": "string", "enum": ["a", "b"]},
        {"type": "string", "maxLength": 8},
        {"type": "string", "format": "date-time"},
        {"type": "string", "pattern": "^[0-9]{6}$"},
    ],
)
def test_an_argument_that_no_key_fits_is_refused(key: dict[str, Any]) -> None:
    with pytest.raises(KeyArgumentError, match="no operation key fits"):
        value(key)
    assert not takes_key("key", schema(key))


@pytest.mark.parametrize(
    "more",
    [
        {"anyOf": [{"required": ["key"]}, {"required": ["amount"]}]},
        {"dependentRequired": {"amount": ["key"]}},
        {"allOf": [{"$ref": "#/$defs/Both"}], "$defs": {"Both": {"properties": {"key": {}}}}},
    ],
)
def test_an_argument_that_the_schema_names_twice_cannot_be_hidden(more: dict[str, Any]) -> None:
    with pytest.raises(KeyArgumentError, match="a second time"):
        value({"type": "string"}, **more)


@pytest.mark.parametrize("name", ["idempotency_key", "idempotencyKey", "Idempotency-Key", "client_token", "reference"])
def test_an_argument_is_suggested_by_its_name_and_its_schema(name: str) -> None:
    assert takes_key(name, {"type": "object", "properties": {name: {"type": "string"}}})
    assert not takes_key(name, {"type": "object", "properties": {name: {"type": "integer"}}})


def test_only_the_key_itself_is_taken_out_of_a_result() -> None:
    data = {"key": "k", "other": "k", "list": [{"key": "k"}, {"key": "j"}]}
    assert SentKey(IN_ARGUMENT, "k").without_echo(data) == {"other": "k", "list": [{}, {"key": "j"}]}


@pytest.mark.parametrize(
    "location",
    [KeyLocation(KeyPlace.HEADER, "Idempotency-Key"), KeyLocation(KeyPlace.META, "com.example/idempotencyKey")],
)
def test_a_key_beside_the_arguments_is_a_uuid_that_results_do_not_repeat(location: KeyLocation) -> None:
    key = OperationKey.of(location, schema({})).filled(OPERATION)
    assert UUID(key.value).version == 5
    data = {"id": "p1", "idempotency_key": key.value, "idempotencyKey": "another"}
    assert key.without_echo(data) == {"id": "p1", "idempotencyKey": "another"}


def policy(markers: str, key: dict[str, Any] | None = None, traits: ToolTraits | None = None) -> CompiledPolicy:
    constitution = Constitution.parse(f"## Available Tools\n- pay: Pay {markers}\n")
    tool = ToolDeclaration(name="pay", description="", parameters=schema(key or {"type": "string"}))
    return compile_policy(constitution, [tool], {"pay": traits or ToolTraits()})


def test_a_policy_shows_the_tool_without_the_argument_and_records_it_as_its_server_declares_it() -> None:
    compiled = policy("(operation key in key)")
    [shown] = compiled.declarations
    assert shown.parameters == {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}
    [recorded] = compiled.tools_json()
    assert recorded["declaration"]["parameters"] == schema({"type": "string"})


@pytest.mark.parametrize(
    ("markers", "traits", "why"),
    [
        ("(operation key in token)", ToolTraits(), "has no argument 'token'"),
        ("(operation key in key)", ToolTraits(read_only=True), "only reads"),
        ("(operation key in key)", ToolTraits(ledger=True), "keeps a ledger"),
        ("(operation key in header Idempotency-Key)", ToolTraits(), "takes no header for the operation key"),
        ("(operation key in header Idempotency-Key)", STDIO, "takes no header .* is reached over stdio"),
        ("(operation key in _meta com.example/key)", ToolTraits(), "takes no _meta .* its server is no MCP server"),
        ("(operation key in header Idempotency-Key)", ToolTraits(ledger=True), "keeps a ledger"),
        ("(key is the signed-in user) (operation key in key)", ToolTraits(), "cannot be the user and the operation key"),
    ],
)
def test_a_marker_that_does_not_fit_the_tool_is_refused(markers: str, traits: ToolTraits, why: str) -> None:
    with pytest.raises(ToolGrantError, match=why):
        policy(markers, traits=traits)


@pytest.mark.parametrize(
    "line",
    [
        "- pay: Pay (reads) (operation key in key)",
        "- pay: Pay (operation key in key) (operation key in token)",
        "- pay: Pay (operation key in key) (operation key in header Idempotency-Key)",
        "- pay: Pay (reads) (operation key in _meta key)",
        "- pay: Pay (operation key in header)key",
        "- pay: Pay (operation key in header a key)",
        "- pay: Pay (operation key in Header Idempotency-Key)",
        "- pay: Pay (operation key in _meta com..example/key)",
        "- pay: Pay (operation key in _meta /key)",
        "- pay: Pay (operation key key)",
        "- pay: Pay with operation key",
    ],
)
def test_a_line_with_a_contradictory_or_misspelt_marker_is_refused(line: str) -> None:
    with pytest.raises(ConstitutionError):
        Constitution.parse(f"## Available Tools\n{line}\n")


@pytest.mark.parametrize(
    "location",
    [
        "header Authorization",
        "header authorization",
        "header Content-Type",
        "header Mcp-Session-Id",
        "header Host",
        "header Cookie",
        "header X-Api-Key",
        "header Transfer-Encoding",
        "header Traceparent",
        "_meta progressToken",
        "_meta io.modelcontextprotocol/key",
        "_meta mcp.dev/key",
        "_meta com.mcp.tools/key",
    ],
)
def test_a_reserved_header_or_field_is_refused(location: str) -> None:
    with pytest.raises(ConstitutionError, match=f"line 2: the operation key cannot be in {location}, which is reserved"):
        Constitution.parse(f"## Available Tools\n- pay: Pay (operation key in {location})\n")


@pytest.mark.parametrize(
    ("location", "transport"),
    [
        ("header Idempotency-Key", Transport.HTTP),
        ("_meta com.example.mcp/key", Transport.STDIO),
        ("_meta idempotency_key", Transport.MEMORY),
        ("header", Transport.HTTP),
    ],
)
def test_a_key_may_be_in_a_header_or_in_meta(location: str, transport: Transport) -> None:
    constitution = Constitution.parse(f"## Available Tools\n- pay: Pay (operation key in {location})\n")
    tool = ToolDeclaration(name="pay", description="", parameters={"properties": {"header": {"type": "string"}}})
    compiled = compile_policy(constitution, [tool], {"pay": ToolTraits(transport=transport)})
    key = compiled.rules["pay"].key
    assert key is not None
    assert str(key.location) == location
    assert compiled.rules["pay"].proof == "key"
